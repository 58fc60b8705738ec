import { chmod, chown, lchown, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkAccess } from '../../src/config/file-access.js';
import { readSettings } from '../../src/config/read-settings.js';

const OUR_ID = process.geteuid?.() ?? 0;

describe('the configuration file', () => {
  let cwd: string;
  beforeEach(async () => {
    cwd = await mkdtemp(join(tmpdir(), 'drover-config-'));
  });
  afterEach(() => rm(cwd, { recursive: true }));

  async function write(name: string, content: string, mode = 0o600): Promise<string> {
    const path = join(cwd, name);
    await writeFile(path, content);
    await chmod(path, mode);
    return path;
  }
  const read = (configPath?: string, env = {}) => readSettings({ flags: {}, env, cwd, configPath });
  const portOf = async (configPath?: string, env = {}) => (await read(configPath, env)).settings.port;

  it('is not needed', async () => {
    expect(await portOf()).toBe(8420);
  });

  it('is found in the working folder', async () => {
    await write('drover.config.json', '{ "port": 1 }');
    expect(await read()).toMatchObject({ settings: { port: 1 }, warnings: [] });
  });

  it('is chosen by --config or DROVER_CONFIG, as JSON or as a module', async () => {
    await write('a.json', '{ "port": 1 }');
    await write('b.mjs', 'export default { port: 2 };');
    expect(await portOf('a.json', { DROVER_CONFIG: 'b.mjs' })).toBe(1);
    expect(await portOf(undefined, { DROVER_CONFIG: 'b.mjs' })).toBe(2);
  });

  it('is not run as code unless the caller names it', async () => {
    await write('drover.config.mjs', 'globalThis.hasRun = true; export default { port: 2 };');
    expect(await read()).toMatchObject({
      settings: { port: 8420 },
      warnings: [
        'drover.config.mjs is not read, because code is loaded only on request: use --config drover.config.mjs',
      ],
    });
    expect(globalThis).not.toHaveProperty('hasRun');
    await write('drover.config.json', '{ "port": 1 }');
    expect(await portOf()).toBe(1);
    expect(await portOf('drover.config.mjs')).toBe(2);
  });

  it.each([0o666, 0o664, 0o602])('is refused if others may write it (mode %o)', async (mode) => {
    for (const [name, content] of [
      ['drover.config.json', '{ "port": 1 }'],
      ['code.mjs', 'throw new Error("has run")'],
    ] as const) {
      const path = await write(name, content, mode);
      await expect(read(name)).rejects.toThrow(
        `configuration file ${path} can be changed by other users (mode ${mode.toString(8)}): run: chmod go-w ${path}`,
      );
    }
    await expect(read()).rejects.toThrow('can be changed by other users');
  });

  it.runIf(OUR_ID === 0)('is refused by root if it belongs to another user', async () => {
    const path = await write('drover.config.json', '{ "port": 1 }');
    await chown(path, 12345, 0);
    await expect(read()).rejects.toThrow(
      `configuration file ${path} belongs to another user (id 12345), expected yours (0) or root: ` +
        `if you trust its content, run: chown 0 ${path}`,
    );
  });

  it('may belong to the user or to root, and to no other user', () => {
    const access = (uid: number) => () => checkAccess('x.json', { uid, mode: 0o100600 }, 1000);
    expect(access(1000)).not.toThrow();
    expect(access(0)).not.toThrow();
    expect(access(1001)).toThrow('belongs to another user (id 1001), expected yours (1000) or root');
  });

  it.runIf(OUR_ID === 0)('is refused if it is a link of another user, even to a file of ours', async () => {
    const ours = await write('ours.json', '{ "port": 1 }');
    const link = join(cwd, 'drover.config.json');
    await symlink(ours, link);
    expect(await portOf()).toBe(1);
    await lchown(link, 1, 1);
    await expect(read()).rejects.toThrow(`configuration file ${link} belongs to another user (id 1)`);
    expect(await portOf(link)).toBe(1);
  });

  it('and private keys with secrets should be readable by their owner alone', async () => {
    const key = await write('server.key', 'secret', 0o644);
    const env = { DROVER_TLS_KEY: 'server.key', DROVER_KEY: 'missing.key' };
    expect((await read(undefined, env)).warnings).toEqual([
      `tlsKey: ${key} can be read by other users (mode 644): run: chmod 600 ${key}`,
    ]);
    await chmod(key, 0o600);
    expect((await read(undefined, env)).warnings).toEqual([]);
  });

  it('with secrets should be readable by its owner alone', async () => {
    const content = '{ "port": 1, "token": "t", "tokens": [] }';
    expect((await read(await write('private.json', content))).warnings).toEqual([]);
    expect((await read(await write('harmless.json', '{ "port": 1 }', 0o644))).warnings).toEqual([]);
    const path = await write('open.json', content, 0o640);
    expect((await read(path)).warnings).toEqual([
      `configuration file ${path} contains secrets (tokens, token) and can be read by other users (mode 640): run: chmod 600 ${path}`,
    ]);
  });

  it('must exist if it is named, and be readable', async () => {
    const missing = join(cwd, 'missing.json');
    await expect(read('missing.json')).rejects.toThrow(`cannot read configuration file ${missing}: it does not exist`);
    await write('broken.mjs', 'export const port = 1;');
    await expect(read('broken.mjs')).rejects.toThrow('has no default export');
    await expect(read('config.yaml')).rejects.toThrow('expected a name that ends in .json or .mjs');
  });

  it('is named with the place of its mistake, and never quoted', async () => {
    const path = await write('broken.json', '{\n  "token": hunter2\n}');
    const error = await read('broken.json').catch((thrown: unknown) => thrown as Error);
    expect(error).toMatchObject({
      message: `configuration file ${path} is not valid JSON: line 2, column 12: expected a value`,
    });
    expect(error).not.toHaveProperty('cause');
  });
});
