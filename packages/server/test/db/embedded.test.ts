import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endProcess, processIdentity } from '../../src/db/embedded/processes.js';
import { startEmbeddedPostgres } from '../../src/db/embedded.js';

let folder: string;
let dataDir: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drover-embedded-'));
  dataDir = join(folder, 'postgres');
});
afterAll(() => rm(folder, { recursive: true }));

const ask = async (url: string, sql: string): Promise<unknown> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return Object.values((await client.query(sql)).rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
};

/** Another process that starts the database and then only waits. */
const startInChild = async (): Promise<{ child: ChildProcess; postmaster: number }> => {
  const module = JSON.stringify(new URL('../../src/db/embedded.ts', import.meta.url).href);
  const code = `const { startEmbeddedPostgres } = await import(${module});
    const { pid } = await startEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)} });
    console.log(pid);`;
  const child = spawn(
    process.execPath,
    ['--import', createRequire(import.meta.url).resolve('tsx'), '--input-type=module', '-e', code],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, postmaster: Number(line.toString()) };
};

const kill = async (child: ChildProcess) => {
  child.kill('SIGKILL');
  await once(child, 'exit');
};

const isGone = async (pid: number) => {
  for (let tries = 0; tries < 400; tries++) {
    if ((await processIdentity(pid)) === undefined) return true;
    await delay(25);
  }
  return false;
};

describe('the embedded PostgreSQL', () => {
  it('is durable, keeps its data over restarts and leaves no process', async () => {
    const first = await startEmbeddedPostgres({ dataDir });
    expect(await ask(first.url, `select current_setting('fsync') || current_setting('synchronous_commit')`)).toBe(
      'onon',
    );
    await ask(first.url, 'create table kept (id int)');
    await first.stop();
    await first.stop();
    expect(await processIdentity(first.pid)).toBeUndefined();

    const second = await startEmbeddedPostgres({ dataDir, settings: { work_mem: '5MB' } });
    expect(await ask(second.url, 'select count(*)::int from kept')).toBe(0);
    expect(await ask(second.url, `select current_setting('work_mem')`)).toBe('5MB');
    await second.stop();
  });

  it('refuses a connection without the password, which only its owner can read', async () => {
    const database = await startEmbeddedPostgres({ dataDir });
    const wrong = new URL(database.url);
    wrong.password = 'wrong';
    await expect(ask(wrong.href, 'select 1')).rejects.toThrow('password authentication failed');
    expect((await stat(join(dataDir, 'password'))).mode & 0o777).toBe(0o600);
    await database.stop();
  });

  it('refuses a folder that is in use and names the process', async () => {
    const database = await startEmbeddedPostgres({ dataDir });
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toThrow(
      `the database in ${dataDir} is in use by process ${process.pid}`,
    );
    expect(await ask(database.url, 'select 1')).toBe(1);
    await database.stop();
  });

  it('goes down with a parent that was killed', async () => {
    const { child, postmaster } = await startInChild();
    await kill(child);
    expect(await isGone(postmaster)).toBe(true);
  });

  it('takes over from a parent and a server that were killed', async () => {
    const { child, postmaster } = await startInChild();
    process.kill(postmaster, 'SIGKILL');
    await kill(child);
    const database = await startEmbeddedPostgres({ dataDir });
    expect(await ask(database.url, 'select count(*)::int from kept')).toBe(0);
    await database.stop();
  });

  it('starts although another process now has its old process id', async () => {
    await writeFile(join(dataDir, 'cluster', 'postmaster.pid'), `${process.pid}\n`);
    await writeFile(join(dataDir, 'owner.json'), JSON.stringify({ pid: process.pid, identity: 'an earlier process' }));
    const database = await startEmbeddedPostgres({ dataDir });
    await database.stop();
    expect((await readdir(dataDir)).sort()).toEqual(['cluster', 'password', 'server.log']);
  });

  it('sets a new password if the old one was lost', async () => {
    const before = await readFile(join(dataDir, 'password'), 'utf8');
    await rm(join(dataDir, 'password'));
    const database = await startEmbeddedPostgres({ dataDir });
    expect(await ask(database.url, 'select 1')).toBe(1);
    await database.stop();
    expect(await readFile(join(dataDir, 'password'), 'utf8')).not.toBe(before);
  });

  it('tells why it did not start', async () => {
    const broken = startEmbeddedPostgres({ dataDir, settings: { shared_buffers: 'plenty' } });
    await expect(broken).rejects.toThrow(/did not start: it ended with code 1\n.*shared_buffers.*"plenty"/s);
    await (await startEmbeddedPostgres({ dataDir })).stop();
  });
});

it('endProcess goes from one signal to the next until the process is gone', async () => {
  const stubborn = spawn(process.execPath, [
    '-e',
    `process.on('SIGTERM', () => {}); console.log(); setInterval(() => {}, 1e6)`,
  ]);
  await once(stubborn.stdout, 'data');
  const steps = [
    { signal: 'SIGTERM', waitMs: 100 },
    { signal: 'SIGKILL', waitMs: 5000 },
  ] as const;
  expect(await endProcess(stubborn.pid ?? 0, steps.slice(0, 1))).toBe(false);
  expect(await endProcess(stubborn.pid ?? 0, steps)).toBe(true);
});
