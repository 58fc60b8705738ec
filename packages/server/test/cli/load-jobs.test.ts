import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PermanentError } from '@drover/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadJobs } from '../../src/cli/load-jobs.js';

let folder: string;

beforeAll(async () => {
  // Inside the package, so that the modules find the SDK as a user's would.
  const base = fileURLToPath(new URL('../../node_modules/', import.meta.url));
  await mkdir(base, { recursive: true });
  folder = await mkdtemp(join(base, '.drover-jobs-'));
});
afterAll(() => rm(folder, { recursive: true }));

const load = async (name: string, code: string) => {
  await writeFile(join(folder, name), code);
  return (await loadJobs(name, folder)).map(({ type }) => type);
};

const imports = `import { defineJob, handle, PermanentError } from '@drover/sdk';`;

describe('a worker module', () => {
  it('may export jobs one by one, in lists, and more than once', async () => {
    const code = `${imports}
      export const a = handle(defineJob({ type: 'a' }), () => 1);
      const b = defineJob({ type: 'b', run: () => 1 });
      export const all = [a, b];
      export const shared = defineJob({ type: 'c' });
      export const other = { type: 'd', run: () => 1 };`;
    expect((await load('plain.mjs', code)).sort()).toEqual(['a', 'b']);
  });

  it('may be written in TypeScript', async () => {
    const code = `${imports}
      type Payload = { name: string };
      export const greet = handle(defineJob<Payload>({ type: 'greet' }), ({ payload }) => payload.name satisfies string);`;
    expect(await load('typed.ts', code)).toEqual(['greet']);
  });

  it('steers its jobs also with its own copy of the SDK', async () => {
    const code = `${imports}
      export const stubborn = defineJob({ type: 'stubborn', run: () => { throw new PermanentError('never' as string); } });`;
    await writeFile(join(folder, 'steering.ts'), code);
    const [job] = (await loadJobs('steering.ts', folder)) as unknown as [{ run: () => Promise<unknown> }];
    const thrown = await Promise.resolve()
      .then(() => job.run())
      .catch((error: unknown) => error);
    expect(PermanentError.isOne(thrown)).toBe(true);
    expect(thrown).not.toBeInstanceOf(PermanentError);
  });

  it('must be there and have jobs with handlers', async () => {
    await expect(loadJobs('missing.mjs', folder)).rejects.toThrow(`${folder}/missing.mjs: it does not exist`);
    await expect(load('empty.mjs', 'export const x = 1;')).rejects.toThrow('empty.mjs exports no jobs with handlers');
  });
});
