import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { processIdentity } from '../../src/db/embedded/processes.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { type CliResult, drover } from './run-cli.js';
import { type CliProcess, startDrover } from './run-process.js';

const SAMPLES = fileURLToPath(new URL('../../src/sample/jobs.ts', import.meta.url));
const READY = /is ready at (http:\S+)/;
const LISTENING = /"address":"(http:[^"]+)"/;

let cwd: string;
let running: CliProcess[];

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'drover-cli-'));
  running = [];
});
afterEach(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all(running.map((cli) => cli.exited()));
  await rm(cwd, { recursive: true, maxRetries: 20 });
});

const start = (args: string[], env: Record<string, string> = {}) => {
  const cli = startDrover(args, { cwd, env });
  running.push(cli);
  return cli;
};

const addressOf = async (cli: CliProcess, pattern: RegExp) => (await cli.says(pattern))[1] ?? '';

describe('drover dev', () => {
  it('runs everything, stops cleanly, and has the same data after a restart', async () => {
    const first = start(['dev', '--no-samples', '--port', '0']);
    const url = await addressOf(first, READY);
    const added = await drover(['job', 'add', 'hello', '{"name":"Ada"}', '--wait', '--url', url]);
    expect(added).toEqual({ code: 0, stdout: '{"greeting":"Hello, Ada"}\n', stderr: '' });
    const postmaster = Number(
      (await readFile(join(cwd, '.drover/postgres/cluster/postmaster.pid'), 'utf8')).split('\n')[0],
    );
    const { items: workers } = JSON.parse((await drover(['workers', '--json', '--url', url])).stdout);
    const [{ pid }] = workers;

    // As npm does it: the same signal twice.
    first.child.kill('SIGINT');
    expect(await first.end('SIGINT')).toBe(0);
    expect(first.text()).toContain('Stopped. The data is kept.');
    expect(await processIdentity(postmaster)).toBeUndefined();
    expect(await processIdentity(pid)).toBeUndefined();

    const second = start(['dev', '--no-samples', '--port', '0']);
    const again = await addressOf(second, READY);
    const { items } = JSON.parse(
      (await drover(['job', 'list', '--include', 'result', '--json', '--url', again])).stdout,
    );
    expect(items).toMatchObject([{ type: 'hello', state: 'succeeded', result: { greeting: 'Hello, Ada' } }]);
    expect(await second.end()).toBe(0);
  });

  it('adds sample jobs and starts a worker that died again', async () => {
    const database = await createTestDatabase();
    const dev = start(['dev', '--port', '0', '--beat', '100ms', '--lease', '500ms'], {
      DROVER_DATABASE_URL: database.url,
    });
    const url = await addressOf(dev, READY);
    await dev.says(/succeeded [1-9]/);
    const crashed = await drover(['job', 'add', 'crash', '--max-attempts', '1', '--wait', '--url', url]);
    expect(crashed.code).toBe(4);
    await dev.says(/worker process has ended and is started again/);
    expect((await drover(['job', 'add', 'hello', '{"name":"Ada"}', '--wait', '--url', url])).code).toBe(0);
    expect(await dev.end()).toBe(0);
    await database.drop();
  });

  it('leaves nothing behind when it is killed', async () => {
    const dev = start(['dev', '--no-samples', '--port', '0']);
    const url = await addressOf(dev, READY);
    await drover(['job', 'add', 'hello', '{"name":"Ada"}', '--wait', '--url', url]);
    const postmaster = Number(
      (await readFile(join(cwd, '.drover/postgres/cluster/postmaster.pid'), 'utf8')).split('\n')[0],
    );
    const { items } = JSON.parse((await drover(['workers', '--json', '--url', url])).stdout);
    await dev.end('SIGKILL');
    const survivors = () => Promise.all([processIdentity(postmaster), processIdentity(items[0].pid)]);
    await expect.poll(survivors, { timeout: 20_000 }).toEqual([undefined, undefined]);
  });
});

describe('drover server and drover worker', () => {
  let database: TestDatabase;
  const tokens = { client: 'client-0123456789abcdef', worker: 'worker-0123456789abcdef' };
  const environment = () => ({
    DROVER_DATABASE_URL: database.url,
    DROVER_TOKENS: `client:${tokens.client},worker:${tokens.worker}`,
  });

  beforeEach(async () => {
    database = await createTestDatabase();
  });
  afterEach(() => database.drop());

  it('are separate processes that meet by address and token', async () => {
    const server = start(['server', '--port', '0'], environment());
    const url = await addressOf(server, LISTENING);
    const client = { env: { DROVER_URL: url, DROVER_TOKEN: tokens.client } };
    const waiting = drover(['job', 'add', 'hello', '{"name":"Ada"}', '--wait'], client);

    const worker = start(['worker', SAMPLES, '--slots', '2'], { DROVER_URL: url, DROVER_TOKEN: tokens.worker });
    expect(await waiting).toMatchObject({ code: 0, stdout: '{"greeting":"Hello, Ada"}\n' });
    await worker.says(/worker is ready/);
    expect(await worker.end()).toBe(0);
    expect(await server.end()).toBe(0);
  });

  it('do not deal with those who have no token', async () => {
    const server = start(['server', '--port', '0'], environment());
    const url = await addressOf(server, LISTENING);
    expect(await drover(['job', 'list', '--url', url])).toMatchObject({ code: 1 });
    const worker = start(['worker', SAMPLES, '--url', url]);
    expect(await worker.exited()).toBe(1);
    expect(worker.text()).toContain('token');
    expect(await server.end()).toBe(0);
  });

  it('P1, P4: are one process in drover node, with a token of its own', async () => {
    const node = start(['node', '--worker', SAMPLES, '--port', '0'], environment());
    const url = await addressOf(node, LISTENING);
    const args = ['job', 'add', 'flaky', '{"failures":1}', '--backoff', 'fixed:10ms', '--wait', '--url', url];
    expect(await drover([...args, '--token', tokens.client])).toMatchObject({ code: 0, stdout: '{"attempts":2}\n' });
    expect(await node.end('SIGINT')).toBe(0);
  });

  it('let a running job finish before they stop', async () => {
    const server = start(['server', '--insecure', '--port', '0'], { DROVER_DATABASE_URL: database.url });
    const url = await addressOf(server, LISTENING);
    const worker = start(['worker', SAMPLES, '--url', url]);
    await worker.says(/worker is ready/);
    const { stdout } = await drover(['job', 'add', 'sleep', '{"ms":700}', '--json', '--url', url]);
    const { id } = JSON.parse(stdout);
    await expect
      .poll(async () => JSON.parse((await drover(['job', 'show', id, '--json', '--url', url])).stdout).state)
      .toBe('running');
    expect(await worker.end()).toBe(0);
    expect(await drover(['job', 'wait', id, '--url', url])).toMatchObject({ code: 0, stdout: '{"sleptMs":700}\n' });
    expect(await server.end()).toBe(0);
  });
});

it('drover migrate and drover server run an embedded database if they are told so', async () => {
  const env = { DROVER_EMBEDDED: 'true' };
  expect(await drover(['migrate'], { cwd, env })).toMatchObject({ code: 0, stdout: 'applied schema\n' });
  const server = start(['server', '--embedded', '--insecure', '--port', '0']);
  const url = await addressOf(server, LISTENING);
  expect((await drover(['job', 'add', 'later', '--url', url])).code).toBe(0);
  expect(await server.end()).toBe(0);
  expect(server.text()).not.toContain('migration applied');
});

describe('drover migrate', () => {
  it('says what it applied', async () => {
    const database = await createTestDatabase({ empty: true });
    const env = { DROVER_DATABASE_URL: database.url };
    expect(await drover(['migrate'], { env })).toMatchObject({ code: 0, stdout: 'applied schema\n' });
    const again = await drover(['migrate', '--to', '1', '--json'], { env });
    expect(JSON.parse(again.stdout)).toMatchObject({ applied: [] });
    expect(await drover(['migrate'], { env })).toMatchObject({ code: 0, stdout: 'nothing to do\n' });
    expect(await drover(['migrate', '--to', 'last'], { env })).toMatchObject({ code: 2 });
    await database.drop();
  });

  it('reads a configuration file', async () => {
    const database = await createTestDatabase();
    await writeFile(join(cwd, 'drover.config.json'), JSON.stringify({ databaseUrl: database.url }));
    expect(await drover(['migrate'], { cwd })).toMatchObject({ code: 0, stdout: 'nothing to do\n' });
    await database.drop();
  });
});

type Run = (...args: string[]) => Promise<CliResult>;

/** Ids may be given by their beginnings. */
async function comesByShortIds(run: Run, id: string): Promise<void> {
  const near = `${id.slice(0, 14)}7fff-8000-000000000000`;
  const parent = (await run('job', 'add', 'other', '--id', near, '--delay', '1h')).stdout.trim();
  expect((await run('job', 'show', id.slice(0, 30).replaceAll('-', '').toUpperCase())).stdout).toContain(id);
  expect((await run('job', 'show', id.slice(0, 20))).stdout).toContain(id);
  expect((await run('job', 'list', '--id-prefix', id.slice(0, 20))).stdout.split('\n')).toHaveLength(3);
  expect((await run('job', 'list', '--parent', parent.slice(0, 16))).stdout).toBe('no jobs\n');
  expect((await run('job', 'list', '--run', near)).stdout).toBe('no jobs\n');
  const [first, second] = [id, near].sort().reverse();
  const line = (one: string | undefined) => `\n  ${one}  ${one === id ? 'later, ready' : 'other, scheduled'}`;
  expect(await run('job', 'cancel', id.slice(0, 8))).toEqual({
    code: 2,
    stdout: '',
    stderr: `drover: id: ${id.slice(0, 8)} is the beginning of more than one id:${line(first)}${line(second)}\n`,
  });
  expect(await run('job', 'show', 'abcdef')).toMatchObject({
    code: 5,
    stderr: 'drover: there is no job whose id begins with abcdef\n',
  });
  expect(await run('pause', 'worker', 'abcde')).toMatchObject({
    code: 2,
    stderr: 'drover: id: expected an id, or at least its first 6 characters, got "abcde"\n',
  });
}

/** Every time that is printed is taken by every option for a time. */
async function takesItsOwnTimes(run: Run, id: string): Promise<void> {
  for (const flags of [[], ['--utc']]) {
    const { stdout } = await run('job', 'show', id, ...flags);
    const time = /created\s+(\S+)/.exec(stdout)?.[1] as string;
    expect(time).toMatch(flags.length > 0 ? /T[\d:]{8}Z$/ : /T[\d:]{8}[+-]\d\d:\d\d$/);
    expect((await run('job', 'list', '--created-after', time)).stdout).toContain(id);
    expect((await run('job', 'list', '--created-before', time)).stdout).not.toContain(id);
    expect((await run('schedule', 'preview', '--every', '1h', '--anchor', time, '--after', time)).code).toBe(0);
    expect((await run('job', 'add', 'other', '--run-at', time)).code).toBe(0);
  }
}

it('drover server starts on a complete database that takes no changes for now', async () => {
  const database = await createTestDatabase();
  await database.pool.query(`alter database ${database.name} set default_transaction_read_only = on`);
  const server = start(['server', '--insecure', '--port', '0'], { DROVER_DATABASE_URL: database.url });
  const url = await addressOf(server, LISTENING);
  const health = await fetch(`${url}/api/deep_ping`);
  expect(health.status).toBe(503);
  expect(await health.json()).toMatchObject({ checks: { database: { message: 'the database takes no changes' } } });
  expect(await server.end()).toBe(0);
  await database.drop();
});

it('the commands that change a job print its new state', async () => {
  const database = await createTestDatabase();
  const server = start(['server', '--insecure', '--port', '0'], { DROVER_DATABASE_URL: database.url });
  const url = await addressOf(server, LISTENING);
  const run = (...args: string[]) => drover([...args, '--url', url]);
  const id = (await run('job', 'add', 'later', '--delay', '1h', '--tag', 'a', '--tag', 'b')).stdout.trim();

  expect((await run('job', 'add', 'later', '--id', id)).stdout).toBe(`${id} (was there already)\n`);
  expect((await run('job', 'cancel', id)).stdout).toMatch(/state\s+cancelled/);
  expect(await run('job', 'cancel', id)).toMatchObject({ code: 0, stdout: `${id} was already cancelled\n` });
  expect(await run('job', 'wait', id)).toMatchObject({ code: 4, stderr: `drover: job ${id} was cancelled\n` });
  expect((await run('job', 'retry', id)).stdout).toMatch(/state\s+ready/);
  expect((await run('job', 'list', '--state', 'ready', '--tag', 'b', '--type', 'later')).stdout).toContain(id);
  expect((await run('job', 'list', '--state', 'succeeded,failed')).stdout).toBe('no jobs\n');
  expect((await run('queues')).stdout).toContain('default');
  expect((await run('servers')).stdout).toContain(url);
  expect((await run('workers')).stdout).toBe('no workers\n');
  expect((await run('stats')).stdout).toMatch(/1 unfinished jobs at \S+\n.*ready\s+1/s);
  await comesByShortIds(run, id);
  await takesItsOwnTimes(run, id);
  const missing = '018f0000-0000-7000-8000-000000000000';
  expect(await run('job', 'show', missing)).toMatchObject({ code: 5, stderr: expect.stringContaining(missing) });
  expect(await run('job', 'wait', id, '--wait-timeout', '50ms')).toMatchObject({ code: 1 });
  expect(await run('pause', 'worker', missing)).toMatchObject({ code: 5, stderr: expect.stringContaining(missing) });
  // a wrong flag is noticed before anything is added
  for (const flags of [
    ['--wait', '--wait-timeout', 'soon'],
    ['--wait-timeout', '5s'],
  ]) {
    const wrong = await run('job', 'add', 'never', ...flags);
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('--wait-timeout') });
  }
  expect((await run('job', 'list', '--type', 'never')).stdout).toBe('no jobs\n');
  expect(await server.end()).toBe(0);
  await database.drop();
});
