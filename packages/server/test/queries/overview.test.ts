import { newId, ROUTES } from '@drover/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectDatabase, type Database, type Runner } from '../../src/db/database.js';
import { createHotCounts } from '../../src/queries/hot-counts.js';
import { listQueues } from '../../src/queries/list-queues.js';
import { listServers } from '../../src/queries/list-servers.js';
import { listWorkers } from '../../src/queries/list-workers.js';
import { createStats } from '../../src/queries/stats.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { insertJobRows, toRow } from './job-rows.js';

const BEAT_MS = 5000;
let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = connectDatabase({ url: database.url, poolSize: 4 });
});
beforeEach(() =>
  database.pool.query(
    'truncate drover.job, drover.job_history, drover.rollup, drover.lane, drover.session, drover.server',
  ),
);
afterAll(async () => {
  await db.close();
  await database.drop();
});

type RollupFields = {
  minutesAgo: number;
  queue?: string;
  succeeded?: number;
  failed?: number;
  retried?: number;
  waitMs?: number;
  runMs?: number;
};

async function addRollup(fields: RollupFields, runner: Runner = db.bulk): Promise<void> {
  const { minutesAgo, queue = 'default', succeeded = 0, failed = 0, retried = 0, waitMs = 0, runMs = 0 } = fields;
  const text = `insert into drover.rollup (minute, server_id, queue, type, succeeded, failed, retried, wait_ms, run_ms)
     values (date_trunc('minute', now() - $1 * interval '1 minute'), $2, $3, 'work', $4, $5, $6, $7, $8)`;
  await runner.run({ name: '', text }, [minutesAgo, newId(), queue, succeeded, failed, retried, waitMs, runMs]);
}

/** Does the work in one transaction, in which `now()` does not change, and leaves nothing behind. */
async function atOneTime(work: (runner: Runner) => Promise<void>): Promise<void> {
  // with one connection every statement is in the transaction
  const { reads, close } = connectDatabase({ url: database.url, poolSize: 1 });
  try {
    await reads.run({ name: '', text: 'begin' });
    await work(reads);
  } finally {
    await close();
  }
}

async function addSession(name: string, fields: Record<string, unknown> = {}): Promise<void> {
  const row = {
    id: newId(),
    name,
    host: 'here',
    pid: 1,
    sdk: 'test',
    types: ['work'],
    slots: 4,
    running: 0,
    ...fields,
  };
  await database.pool.query(
    `insert into drover.session (id, name, host, pid, sdk, types, queues, slots, running, missed_beats, draining,
       beat_at, expires_at, ended_at, ending, server_id)
     select id, name, host, pid, sdk, types, queues, slots, running, coalesce(missed_beats, 0), coalesce(draining, false),
       now() - coalesce(silent_ms, 0) * interval '1 millisecond', now() + interval '1 minute',
       case when ending is not null then now() end, ending, server_id
     from json_to_record($1) as r(id uuid, name text, host text, pid int, sdk text, types text[], queues text[], slots int,
       running int, missed_beats int, draining boolean, silent_ms int, ending text, server_id uuid)`,
    [JSON.stringify(row)],
  );
}

async function addServer(silentMs: number, draining = false): Promise<string> {
  const id = newId();
  await database.pool.query(
    `insert into drover.server (id, address, host, pid, version, draining, beat_at)
     values ($1, 'http://here', 'here', 1, '0', $2, now() - $3 * interval '1 millisecond')`,
    [id, draining, silentMs],
  );
  return id;
}

const stats = (runner = db.reads) => createStats(runner, createHotCounts(runner), BEAT_MS)();

describe('statistics', () => {
  test('of an empty system are zeros', async () => {
    const empty = { succeeded: 0, failed: 0, cancelled: 0, retried: 0, waitMs: null, runMs: null };
    expect(ROUTES.stats.answer.strict().parse(await stats())).toMatchObject({
      counts: { succeeded: 0, failed: 0, cancelled: 0 },
      capacity: { total: 0, free: 0, workers: 0, servers: 0 },
      perSecond: { finished: 0 },
      ...{ lastMinute: empty, lastHour: empty, lastDay: empty },
    });
  });

  test('count the present unfinished jobs by state', async () => {
    const read = createStats(db.reads, createHotCounts(db.reads), BEAT_MS);
    const rows = (['ready', 'ready', 'scheduled', 'running', 'unknown', 'blocked'] as const).map((state) =>
      toRow({ state }),
    );
    await insertJobRows(database.pool, rows);
    expect((await read()).counts).toMatchObject({ ready: 2, scheduled: 1, running: 1, unknown: 1, blocked: 1 });
    await insertJobRows(database.pool, [toRow({ state: 'ready' })]);
    expect((await read()).counts).toMatchObject({ ready: 3 });
  });

  test('sum what has finished over every span, each minute once', async () => {
    const minutes = [0, 1, 2, 4, 5, 6, 60, 61, 1440, 1441, 20_000];
    await atOneTime(async (runner) => {
      for (const minutesAgo of minutes) await addRollup({ minutesAgo, succeeded: 1 }, runner);
      const { counts, lastMinute, lastHour, lastDay } = await stats(runner);
      expect([lastMinute, lastHour, lastDay].map((flow) => flow.succeeded)).toEqual([2, 7, 9]);
      expect(counts.succeeded).toBe(minutes.length);
    });
  });

  test('have a job that has just finished, also when the long sums are kept', async () => {
    const read = createStats(db.reads, createHotCounts(db.reads), BEAT_MS);
    await addRollup({ minutesAgo: 100, succeeded: 5 });
    expect((await read()).counts.succeeded).toBe(5);
    await addRollup({ minutesAgo: 0, succeeded: 1, failed: 2 });
    expect((await read()).counts).toMatchObject({ succeeded: 6, failed: 2 });
  });

  test('have the means of waiting and running', async () => {
    await addRollup({ minutesAgo: 0, succeeded: 3, failed: 1, retried: 4, waitMs: 400, runMs: 1600 });
    expect((await stats()).lastMinute).toMatchObject({ waitMs: 100, runMs: 200, retried: 4 });
  });

  test('count as capacity only workers and servers that answer', async () => {
    await addSession('free');
    await addSession('busy', { running: 3 });
    await addSession('draining', { draining: true });
    await addSession('deaf', { missed_beats: 2 });
    await addSession('dead', { ending: 'dead' });
    await addServer(0);
    await addServer(60_000);
    expect((await stats()).capacity).toEqual({ total: 8, free: 5, workers: 2, servers: 1 });
  });
});

describe('queues', () => {
  const queues = () => listQueues(db.reads, createHotCounts(db.reads));

  test('are all that were ever used, with what waits in them and what the last hour brought', async () => {
    await database.pool.query(
      `insert into drover.lane values ('mail', 'send'), ('mail', 'send'), ('mail', 'bounce'), ('idle', 'work')`,
    );
    const oldest = new Date(Date.now() - 60_000);
    await insertJobRows(database.pool, [
      toRow({ state: 'ready', queue: 'mail', createdAt: oldest }),
      toRow({ state: 'ready', queue: 'mail' }),
      toRow({ state: 'scheduled', queue: 'mail', createdAt: new Date(0) }),
    ]);
    await addRollup({ minutesAgo: 3, queue: 'mail', succeeded: 7 });
    await addRollup({ minutesAgo: 70, queue: 'mail', succeeded: 1 });
    const items = ROUTES.listQueues.answer.strict().parse({ items: await queues() }).items;
    expect(items).toMatchObject([
      { name: 'idle', counts: {}, types: ['work'], oldestReadyAt: null, lastHour: { succeeded: 0, runMs: null } },
      {
        name: 'mail',
        counts: { ready: 2, scheduled: 1 },
        types: ['bounce', 'send'],
        oldestReadyAt: oldest.toISOString(),
        lastHour: { succeeded: 7 },
      },
    ]);
  });
});

describe('workers', () => {
  test('have the state that follows from what is known of them', async () => {
    await addSession('idle');
    await addSession('busy', { running: 1 });
    await addSession('going', { draining: true, running: 1 });
    await addSession('one beat late', { missed_beats: 1 });
    await addSession('deaf', { missed_beats: 2, running: 1 });
    await addSession('deaf while going', { missed_beats: 3, draining: true });
    await addSession('without a server', { silent_ms: 2 * BEAT_MS });
    await addSession('left', { ending: 'resigned' });
    await addSession('lost', { ending: 'dead', missed_beats: 9 });
    const items = ROUTES.listWorkers.answer.strict().parse({ items: await listWorkers(db.reads, BEAT_MS) }).items;
    expect(Object.fromEntries(items.map(({ name, state }) => [name, state]))).toEqual({
      idle: 'waiting',
      busy: 'working',
      going: 'draining',
      'one beat late': 'waiting',
      deaf: 'unresponsive',
      'deaf while going': 'unresponsive',
      'without a server': 'unresponsive',
      left: 'resigned',
      lost: 'dead',
    });
    expect(
      items
        .slice(-2)
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['left', 'lost']);
  });
});

describe('servers', () => {
  test('have their state and the workers that they serve', async () => {
    const working = await addServer(0);
    const draining = await addServer(0, true);
    const silent = await addServer(3 * BEAT_MS);
    await addSession('a', { server_id: working });
    await addSession('b', { server_id: working });
    const items = ROUTES.listServers.answer.strict().parse({ items: await listServers(db.reads, BEAT_MS) }).items;
    expect(Object.fromEntries(items.map(({ id, state, workers }) => [id, [state, workers]]))).toEqual({
      [working]: ['working', 2],
      [draining]: ['draining', 0],
      [silent]: ['unresponsive', 0],
    });
  });
});
