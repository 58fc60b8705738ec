import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PermanentError } from '@drover/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadHandlers } from '../../src/cli/load-handlers.js';

let folder: string;

beforeAll(async () => {
  // Inside the package, so that the modules find the SDK as a user's would.
  const base = fileURLToPath(new URL('../../node_modules/', import.meta.url));
  await mkdir(base, { recursive: true });
  folder = await mkdtemp(join(base, '.drover-handlers-'));
});
afterAll(() => rm(folder, { recursive: true }));

const load = async (name: string, code: string) => {
  await writeFile(join(folder, name), code);
  return (await loadHandlers(name, folder)).map(({ definition }) => definition.type);
};

const imports = `import { defineJob } from '@drover/sdk'; import { handle } from '@drover/sdk/worker';`;

describe('a worker module', () => {
  it('may export handlers one by one, in lists, and more than once', async () => {
    const code = `${imports}
      export const a = handle(defineJob({ type: 'a' }), () => 1);
      const b = handle(defineJob({ type: 'b' }), () => 1);
      export const all = [a, b];
      export const other = { run: 1 };`;
    expect((await load('plain.mjs', code)).sort()).toEqual(['a', 'b']);
  });

  it('may be written in TypeScript', async () => {
    const code = `${imports}
      type Payload = { name: string };
      export const greet = handle(defineJob<Payload>({ type: 'greet' }), ({ payload }) => payload.name satisfies string);`;
    expect(await load('typed.ts', code)).toEqual(['greet']);
  });

  it('steers its jobs also with its own copy of the SDK', async () => {
    const code = `import { defineJob, PermanentError } from '@drover/sdk'; import { handle } from '@drover/sdk/worker';
      export const stubborn = handle(defineJob({ type: 'stubborn' }), () => { throw new PermanentError('never' as string); });`;
    await writeFile(join(folder, 'steering.ts'), code);
    const [handler] = (await loadHandlers('steering.ts', folder)) as unknown as [{ run: () => Promise<unknown> }];
    const thrown = await Promise.resolve()
      .then(() => handler.run())
      .catch((error: unknown) => error);
    expect(PermanentError.isOne(thrown)).toBe(true);
    expect(thrown).not.toBeInstanceOf(PermanentError);
  });

  it('must be there and have handlers', async () => {
    await expect(loadHandlers('missing.mjs', folder)).rejects.toThrow(`no worker module at ${folder}/missing.mjs`);
    await expect(load('empty.mjs', 'export const x = 1;')).rejects.toThrow('empty.mjs exports no handlers');
  });
});
