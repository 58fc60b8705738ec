/**
 * PostgreSQL ends every connection, idle or busy, as it does when it is shut down. An error event without a listener
 * ends a Node process, so each place where one can come is met here.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createClient } from '@drover/sdk';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OwnPostgres, startOwnPostgres } from '../../../../test/support/own-postgres.js';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { sql } from '../../src/db/statement.js';
import { createWakeups } from '../../src/dispatch/wakeups.js';
import { createProcesses, type Processes } from '../faults/support/processes.js';
import { type AnswerHolder, startAnswerHolder } from '../support/answer-holder.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const POOL_SIZE = 3;
const POOLS = 3;
const ADMIN_SHUTDOWN = '57P01';
const CANNOT_CONNECT_NOW = '57P03';
const answer = sql('answer')`select 1 as one`;
const answerHeld = sql('answer_held')`select 2 as two`;
const nap = sql('nap')`select pg_sleep(0.3)`;
const sleep = sql('sleep')`select pg_sleep(60)`;

describe('the connections of a server', () => {
  let database: TestDatabase;
  let holder: AnswerHolder;
  let db: Database;
  const errors: (Error & { code?: string })[] = [];
  beforeAll(async () => {
    database = await createTestDatabase();
    holder = await startAnswerHolder(database.url);
    db = connectDatabase({ url: holder.url, poolSize: POOL_SIZE, onError: (error) => errors.push(error) });
  });
  afterAll(async () => {
    await db.close();
    await holder.close();
    await database.drop();
  });

  const OWN = `application_name = 'drover' and datname = current_database()`;
  async function endAll(): Promise<number> {
    const { rows } = await database.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${OWN}`);
    return rows.length;
  }
  async function activeCount(): Promise<number> {
    const { rows } = await database.pool.query(
      `select count(*)::int as count from pg_stat_activity where ${OWN} and state = 'active'`,
    );
    return rows[0].count;
  }
  const all = () => [db.control, db.bulk, db.reads];

  test('end while idle: they are told of, and the next statement gets a new one', async () => {
    await Promise.all(all().flatMap((pool) => Array.from({ length: POOL_SIZE }, () => pool.run(nap))));
    expect(await endAll()).toBe(POOL_SIZE * POOLS);
    await expect
      .poll(() => errors.filter(({ code }) => code === ADMIN_SHUTDOWN).length)
      .toBeGreaterThanOrEqual(POOL_SIZE * POOLS);
    for (const pool of all()) expect(await pool.run(answer)).toEqual([{ one: 1 }]);
  });

  test('end while busy: callers that wait get an error of the kind unknown', async () => {
    const busy = all().flatMap((pool) => Array.from({ length: POOL_SIZE }, () => pool.run(sleep)));
    const settled = Promise.allSettled(busy);
    await expect.poll(activeCount).toBe(POOL_SIZE * POOLS);
    await endAll();
    for (const result of await settled) {
      expect(result).toMatchObject({ status: 'rejected', reason: { kind: 'unknown', sqlState: ADMIN_SHUTDOWN } });
    }
    for (const pool of all()) expect(await pool.run(answer)).toEqual([{ one: 1 }]);
  });

  test('end in one packet with an answer: the answer counts, and the connection is not used again', async () => {
    const pass = holder.holdAnswersTo('answer_held');
    const answered = db.control.run(answerHeld);
    const inDoubt = `from pg_stat_activity where ${OWN} and state = 'idle' and query like '%as two%'`;
    await expect.poll(async () => (await database.pool.query(`select ${inDoubt}`)).rows.length).toBe(1);
    await database.pool.query(`select pg_terminate_backend(pid) ${inDoubt}`);
    await expect.poll(() => holder.holds(ADMIN_SHUTDOWN)).toBe(true);
    pass();
    expect(await answered).toEqual([{ two: 2 }]);
    for (let each = 0; each < POOL_SIZE; each++) expect(await db.control.run(answer)).toEqual([{ one: 1 }]);
  });

  test('end in one packet with an answer, while a caller waits: the caller gets another connection', async () => {
    const single = connectDatabase({ url: holder.url, poolSize: 1 });
    const pass = holder.holdAnswersTo('answer_awaited');
    const answered = single.control.runTexts(sql('answer_awaited')`select 'awaited'`, []);
    const waiting = single.control.runTexts(answer, []);
    const inDoubt = `from pg_stat_activity where ${OWN} and state = 'idle' and query like '%awaited%'`;
    await expect.poll(async () => (await database.pool.query(`select ${inDoubt}`)).rows.length).toBe(1);
    await database.pool.query(`select pg_terminate_backend(pid) ${inDoubt}`);
    await expect.poll(() => holder.holds(ADMIN_SHUTDOWN)).toBe(true);
    pass();
    expect(await answered).toEqual([['awaited']]);
    expect(await waiting).toEqual([['1']]);
    await single.close();
  });
});

describe('a frozen database', () => {
  /** Forwards to PostgreSQL until it is told to stop; after that it does not even forward that a client disconnects. */
  async function startFreezer(databaseUrl: string) {
    const target = new URL(databaseUrl);
    const sockets = new Set<Socket>();
    let isFrozen = false;
    const server = createServer({ allowHalfOpen: true }, (near) => {
      const far = connect({ port: Number(target.port), host: target.hostname, allowHalfOpen: true });
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from.on('error', () => {}));
        from.on('data', (bytes) => !isFrozen && to.write(bytes));
        from.on('end', () => !isFrozen && to.end());
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = new URL(databaseUrl);
    url.port = String((server.address() as AddressInfo).port);
    return {
      url: url.href,
      freeze() {
        isFrozen = true;
      },
      async close() {
        for (const socket of sockets) socket.destroy();
        await new Promise((resolve) => server.close(resolve));
      },
    };
  }

  test('does not keep a server from ending', async () => {
    const database = await createTestDatabase();
    const freezer = await startFreezer(database.url);
    const db = connectDatabase({ url: freezer.url, poolSize: 1 });
    const logger = pino({ level: 'silent' });
    let heard = () => {};
    const isHeard = new Promise<void>((resolve) => {
      heard = resolve;
    });
    const wakeups = createWakeups({
      ...{ url: () => freezer.url, db: db.control, serverId: 'one', logger, othersAlive: () => true },
      onHint: () => heard(),
    });
    wakeups.start();
    // Both connections stand when it freezes: the one that listens has heard something.
    const say = setInterval(() => void database.pool.query(`select pg_notify('drover_hints', 'other ready')`), 50);
    await isHeard;
    clearInterval(say);
    await db.control.run(answer);
    freezer.freeze();
    await wakeups.stop();
    await db.close();
    await freezer.close();
    await database.drop();
  });
});

describe('a server', () => {
  let postgres: OwnPostgres;
  let processes: Processes;
  beforeAll(async () => {
    postgres = await startOwnPostgres();
    processes = createProcesses();
  }, 120_000);
  afterAll(async () => {
    await processes.end();
    await postgres.drop();
  });

  test('outlives a database that takes no new connections, then ends all, and comes back', {
    timeout: 90_000,
  }, async () => {
    const server = await processes.startServer(postgres.url, { flags: ['--log-level', 'debug'] });
    processes.startWorker('one', [server.url]);
    const client = createClient({ url: server.url, timeout: '60s' });
    const run = async (number: number) => (await client.enqueue('work', { ms: 0, number })).result();
    expect(await run(1)).toBe(1);
    const ours = await postgres.pool.connect();
    postgres.beginShutdown();
    // a process that loses a connection now needs a new one, and PostgreSQL refuses it
    await ours.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'drover'`);
    await expect.poll(() => server.log(), { timeout: 20_000 }).toContain(CANNOT_CONNECT_NOW);
    ours.release();
    const during = run(2);
    await postgres.restart('fast');
    expect(await during).toBe(2);
    expect(await run(3)).toBe(3);
    expect(server.child.exitCode ?? server.child.signalCode).toBeNull();
    await client.close();
  });
});
