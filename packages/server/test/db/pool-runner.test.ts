/** The connections of one pool: which statement gets one, when, and what happens to a connection that breaks. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect as connectSocket, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createPoolRunner, type PoolRunner } from '../../src/db/pool-runner.js';
import { sql } from '../../src/db/statement.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const MAX = 2;
const LONG_MS = 60_000;

let database: TestDatabase;
const made: PoolRunner[] = [];
let errors: Error[] = [];
beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  await database.pool.query(`
    create table slow (key int);
    create function slow_commit() returns trigger language plpgsql as $$
      begin perform pg_sleep(0.3); return null; end $$;
    create constraint trigger slow after insert on slow deferrable initially deferred
      for each row execute function slow_commit()`);
});
afterEach(async () => {
  for (const runner of made.splice(0)) await runner.end();
  errors = [];
});
afterAll(() => database.drop());

function connect({
  url = database.url,
  max = MAX,
  deadlineMs = LONG_MS,
  settings = 'set application_name = probe',
} = {}) {
  const runner = createPoolRunner({
    ...{ url, settings, deadlineMs, max },
    ready: () => undefined,
    onError: (error) => errors.push(error),
    onFailure: () => {},
    onAnswer: () => {},
  });
  made.push(runner);
  return runner;
}

const pid = sql('pid')`select pg_backend_pid()`;
const nap = sql('nap')`select pg_sleep($1::float8)`;
const napOfPid = sql('nap_of_pid')`select pg_backend_pid() from pg_sleep($1::float8)`;

/** Its commit takes a while. */
const insertSlow = sql('insert_slow')`insert into slow values (1)`;

async function pidOf(runner: PoolRunner): Promise<string> {
  const [[text] = []] = await runner.runTexts(pid, []);
  return text as string;
}

async function terminate(backend: string): Promise<void> {
  await database.pool.query('select pg_terminate_backend($1)', [backend]);
}

async function untilSleeping(count: number): Promise<void> {
  const query = `select from pg_stat_activity where application_name = 'probe' and wait_event = 'PgSleep'`;
  await expect.poll(async () => (await database.pool.query(query)).rowCount).toBe(count);
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(database.url);
  url.port = String((server.address() as { port: number }).port);
  return url.href;
}

test('a free connection is used again, with its settings', async () => {
  const runner = connect();
  const first = await pidOf(runner);
  expect(await pidOf(runner)).toBe(first);
  expect(await runner.run(sql('name')`select current_setting('application_name') as name`)).toEqual([
    { name: 'probe' },
  ]);
});

test('there are at most as many connections as allowed; statements wait in their order', async () => {
  const runner = connect();
  const order: number[] = [];
  const pids = await Promise.all(
    [0, 1, 2, 3, 4].map(async (number) => {
      const [[backend] = []] = await runner.runTexts(napOfPid, ['0.1']);
      order.push(number);
      return backend;
    }),
  );
  expect(new Set(pids).size).toBe(MAX);
  expect(order.slice(-1)).toEqual([4]);
  expect(order.slice(0, MAX).sort()).toEqual([0, 1]);
});

test('a statement that waits too long for a connection was not sent, and takes nothing from later ones', {
  timeout: 15_000,
}, async () => {
  const runner = connect({ max: 1 });
  const busy = runner.runTexts(nap, ['6']);
  await expect(runner.runTexts(pid, [])).rejects.toMatchObject({ kind: 'unavailable' });
  await busy;
  expect(await pidOf(runner)).toBe(await pidOf(runner));
});

test('a connection that breaks while it is free is reported and not used', async () => {
  const runner = connect();
  const broken = await pidOf(runner);
  await terminate(broken);
  await expect.poll(() => errors.length).toBeGreaterThan(0);
  expect(await pidOf(runner)).not.toBe(broken);
});

/** Leads to PostgreSQL and can say what PostgreSQL does not. */
async function startSpeaker() {
  const target = new URL(database.url);
  const near: Socket[] = [];
  const server = createServer((socket) => {
    near.push(socket);
    const far = connectSocket(Number(target.port), target.hostname);
    socket.on('error', () => {}).on('close', () => far.destroy());
    far.on('error', () => {});
    socket.pipe(far).pipe(socket);
  });
  const url = await listen(server);
  return {
    url,
    /** Sends a message of this type to the newest connection, and gives its socket. */
    say(type: 'E' | 'N', fields: string): Socket {
      const length = Buffer.alloc(4);
      length.writeInt32BE(4 + fields.length);
      const socket = near.at(-1) as Socket;
      socket.write(Buffer.concat([Buffer.from(type), length, Buffer.from(fields)]));
      return socket;
    },
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}

test('an error without a statement closes a free connection, also if PostgreSQL keeps it open', async () => {
  const speaker = await startSpeaker();
  const runner = connect({ url: speaker.url });
  const broken = await pidOf(runner);
  const socket = speaker.say('E', 'SERROR\0C57014\0Mno reason\0\0');
  await new Promise((resolve) => socket.once('close', resolve));
  expect(errors).toMatchObject([{ message: 'no reason' }]);
  expect(await pidOf(runner)).not.toBe(broken);
  await runner.end();
  await speaker.close();
});

test('a commit that is answered without its standby is unknown, and only that one', async () => {
  const speaker = await startSpeaker();
  const runner = connect({ url: speaker.url, max: 1 });
  for (const commit of [() => runner.run(insertSlow), () => runner.transaction((tx) => tx.run(insertSlow))]) {
    const unreplicated = expect(commit()).rejects.toMatchObject({ kind: 'unknown', message: 'not on the standby' });
    await untilSleeping(1);
    speaker.say('N', 'SWARNING\0C01000\0Mnot on the standby\0RSyncRepWaitForLSN\0\0');
    await unreplicated;
    expect(Number(await pidOf(runner))).toBeGreaterThan(0);
  }
  await runner.end();
  await speaker.close();
});

test('a waiting statement gets a new connection in place of a broken one', async () => {
  const runner = connect({ max: 1 });
  const broken = await pidOf(runner);
  const lost = expect(runner.runTexts(nap, ['60'])).rejects.toMatchObject({ kind: 'unknown' });
  const waiting = pidOf(runner);
  await untilSleeping(1);
  await terminate(broken);
  await lost;
  expect(await waiting).not.toBe(broken);
});

test('a connection that cannot be opened is an error each time, and leaves room for the next', async () => {
  const server = createServer((socket) => socket.destroy());
  const runner = connect({ url: await listen(server) });
  for (let round = 0; round < 3; round++) {
    const all = await Promise.allSettled(Array.from({ length: MAX + 2 }, () => runner.runTexts(pid, [])));
    for (const result of all) expect(result).toMatchObject({ status: 'rejected', reason: { kind: 'unavailable' } });
  }
  await new Promise((resolve) => server.close(resolve));
});

test('a missing certificate file is an error each time, also for a statement that waits', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'drover-'));
  const certificate = join(folder, 'root.crt');
  const missing = { kind: 'unavailable', message: expect.stringContaining('root.crt') };
  const runner = connect({ url: `${database.url}?sslrootcert=${certificate}&sslmode=disable`, max: 1 });
  for (let round = 0; round < 2; round++) await expect(pidOf(runner)).rejects.toMatchObject(missing);
  await writeFile(certificate, '');
  const backend = await pidOf(runner);
  const lost = expect(runner.runTexts(nap, ['60'])).rejects.toMatchObject({ kind: 'unknown' });
  const waiting = expect(pidOf(runner)).rejects.toMatchObject(missing);
  await untilSleeping(1);
  await rm(folder, { recursive: true });
  await terminate(backend);
  await Promise.all([lost, waiting]);
  await expect(pidOf(runner)).rejects.toMatchObject(missing);
});

test('a connection is destroyed at the deadline of its statement; its time without a statement does not count', async () => {
  const runner = connect({ max: 1, deadlineMs: 400 });
  const first = await pidOf(runner);
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(await pidOf(runner)).toBe(first);
  await expect(runner.runTexts(nap, ['30'])).rejects.toMatchObject({
    kind: 'unknown',
    message: 'no answer within 400 ms',
  });
  expect(await pidOf(runner)).not.toBe(first);
});

test('ending waits for the statements under way and refuses later ones', async () => {
  const runner = connect();
  const busy = runner.runTexts(napOfPid, ['0.3']);
  await untilSleeping(1);
  let isEnded = false;
  const ended = Promise.all([runner.end(), runner.end()]).then(() => {
    isEnded = true;
  });
  await expect(runner.runTexts(pid, [])).rejects.toMatchObject({ kind: 'unavailable' });
  expect(isEnded).toBe(false);
  expect(await busy).toHaveLength(1);
  await ended;
});

test('ending while a connection is being opened lets its statement finish', async () => {
  const runner = connect();
  const first = pidOf(runner);
  const ended = runner.end();
  expect(Number(await first)).toBeGreaterThan(0);
  await ended;
});

test('after a move the statements go to the new host, and those under way on the old one finish', async () => {
  const runner = connect();
  const busy = runner.runTexts(napOfPid, ['0.3']);
  await untilSleeping(1);
  const moved = new URL(database.url);
  moved.pathname = '/postgres';
  runner.moveTo(moved.href);
  const where = sql('where')`select current_database()`;
  expect(await runner.runTexts(where, [])).toEqual([['postgres']]);
  expect(await busy).toHaveLength(1);
});
