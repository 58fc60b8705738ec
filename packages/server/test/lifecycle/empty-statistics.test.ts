/**
 * PostgreSQL's statistics say "empty" of a queue whenever they were taken after a burst was drained, and a plan that was
 * made by them is kept when the next burst comes. So here the statements that take a batch are planned for drained tables,
 * then come many rows. Their work must be that of the batch: neither of all rows, nor of each row compared with each item.
 */
import { newId, newScheduleSchema } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { insertJobs } from '../../src/admission/insert-jobs.js';
import { connectDatabase, type Database, type Runner } from '../../src/db/database.js';
import { cancelJobs, cancelReturnedJobs } from '../../src/lifecycle/cancel.js';
import { claimJobs } from '../../src/lifecycle/claim.js';
import { completeJobs, completeJobsWithChildren } from '../../src/lifecycle/complete.js';
import { expireJobs } from '../../src/lifecycle/expire.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { loseExpiredSessions, loseGrants, loseOrphans } from '../../src/lifecycle/lose.js';
import { promoteJobs } from '../../src/lifecycle/promote.js';
import { releaseJobs } from '../../src/lifecycle/release.js';
import { snoozeJobs } from '../../src/lifecycle/snooze.js';
import { stopJobs } from '../../src/lifecycle/stop.js';
import { fireDue, fireOverdue } from '../../src/schedules/fire-due.js';
import { type ScheduleProgress, writeNextTimes } from '../../src/schedules/next-times.js';
import { putSchedule } from '../../src/schedules/put-schedule.js';
import { releaseUnknownGrants } from '../../src/sessions/compare-grants.js';
import { openSession } from '../../src/sessions/open-session.js';
import { createProgressWriter } from '../../src/sessions/progress.js';
import { renewSessions } from '../../src/sessions/session-store.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { writeUnguarded } from '../support/guard-moves.js';
import { type JobFields, rowOf, SERVER_ID } from '../support/lifecycle.js';
import { PROOF, previously, RESUME_KEY } from '../support/raw-worker.js';
import { sessionOf } from '../support/session.js';
import { type Work, watch } from '../support/statement-work.js';

const BATCH = 500;
/** The size of the batches: 1 while the plans are made. */
let size = 1;
/** Rows of every kind that the statement does not concern. */
const OTHERS = 20 * BATCH;
/** Rows that a statement may look at for each item of its batch, in all tables and CTEs together. */
const WORK_AN_ITEM = 8;

const HOST = 'here';
const owner = newId();

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  // one connection, so that what is explained is planned where it runs
  db = connectDatabase({ url: database.url, poolSize: 1 });
  await database.pool.query(
    `insert into drover.lane (queue, type) select 'default', 'type' || n from generate_series(1, 100) n`,
  );
  const anchor = new Date(Date.now() - 30 * 60_000);
  await putSchedule(db.bulk, 'first', newScheduleSchema.parse({ every: '1h', anchor, job: { type: 'work' } }));
  await fill();
  await takeStatisticsOfDrained();
  for (const [, run] of cases) await run(db.control);
  await fill();
  size = BATCH;
}, 120_000);
afterAll(async () => {
  await db.close();
  await database.drop();
});

/** Pages without rows, which is what tells PostgreSQL that there will be none, whatever the size of the table. */
async function takeStatisticsOfDrained(): Promise<void> {
  const { pool } = database;
  await pool.query(`delete from drover.schedule where name <> 'first'`);
  await writeUnguarded(pool, 'delete from drover.job');
  await pool.query('delete from drover.job_history');
  await pool.query('delete from drover.session');
  const { rows } = await pool.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class where relnamespace = 'drover'::regnamespace and relkind = 'r'`,
  );
  for (const { name } of rows) {
    await pool.query(`alter table ${name} set (autovacuum_enabled = false)`);
    await pool.query(`vacuum (analyze, truncate false) ${name}`);
  }
}

async function fill(): Promise<void> {
  const { pool } = database;
  await sessions(OTHERS);
  await pool.query(
    `insert into drover.job (id, run_at, state, session_id, fence, attempt, started_at, queue, type, payload)
     select drover.new_id(), now() + interval '1 hour', state, case when state = 'running' then gen_random_uuid() end, 1, 1,
       case when state = 'running' then now() end, 'default', 'other', '{}'
     from generate_series(1, ${OTHERS}) n, unnest('{ready,scheduled,running}'::drover.job_state[]) state`,
  );
  await pool.query(
    `insert into drover.job_history (id, created_at, run_at, finished_at, fence, attempt, max_attempts, lost_attempts,
       priority, state, queue, type, payload)
     select drover.new_id(), now(), now(), now(), 1, 1, 10, 0, 0, state, 'default', 'other', '{}'
     from generate_series(1, ${OTHERS}) n, unnest('{succeeded,failed}'::drover.job_state[]) state`,
  );
  await pool.query(
    `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at)
     select $1 || n, s.definition, s.job, now(), now() + interval '1 hour', now() + interval '1 hour'
     from drover.schedule s, generate_series(1, ${OTHERS}) n where s.name = 'first'`,
    [newId()],
  );
}

/** Jobs of this batch, by their grants. */
async function jobs(state: 'ready' | 'running' | 'scheduled', session: string = owner) {
  const isRunning = state === 'running';
  const { rows } = await database.pool.query<{ id: string; fence: number }>(
    `insert into drover.job (id, run_at, state, session_id, fence, attempt, started_at, queue, type, payload)
     select drover.new_id(), now() - interval '1 s', '${state}', ${isRunning ? '$1::uuid' : 'null'}, 1, 1,
       ${isRunning ? 'now()' : 'null'}, 'default', 'work', '{}'
     from generate_series(1, ${size})
     returning id::text as id, fence`,
    isRunning ? [session] : [],
  );
  return rows;
}

const isTooMuch = ({ fetched, wasted }: Work) => Math.max(fetched, wasted) > WORK_AN_ITEM * size;

const error = { name: 'Error', message: 'no' };
const hello = {
  name: 'w',
  host: HOST,
  pid: 1,
  sdk: 'test',
  types: ['work'],
  slots: 1,
  connection: 1,
  resumeKey: RESUME_KEY,
};

const cases: [string, (watched: Runner) => Promise<unknown>][] = [
  ['insert', (runner) => insertJobs(runner, newJobs({ priority: 1 }))],
  ['insert of jobs that may exist', (runner) => insertJobs(runner, newJobs({}), { mayExist: true })],
  [
    'claim',
    async (runner) => {
      await jobs('ready');
      const slots = Array(size).fill(owner);
      expect(await claimJobs(runner, [{ types: ['work'], queues: null, slots, ignoresPause: false }])).toHaveLength(
        size,
      );
    },
  ],
  [
    'complete',
    async (runner) => {
      const items = (await jobs('running')).map((job) => ({ ...job, runMs: 1, result: '1' }));
      expect(await completeJobs(runner, SERVER_ID, items)).toHaveLength(size);
    },
  ],
  [
    'complete with children',
    async (runner) => {
      const children = () => [rowOf({ payload: 1 }).job];
      const items = (await jobs('running')).map((job) => ({ ...job, runMs: 1, result: '1', children: children() }));
      expect(await completeJobsWithChildren(runner, SERVER_ID, items)).toHaveLength(2 * size);
    },
  ],
  [
    'fail',
    async (runner) => {
      const retryInMs = (index: number) => (index % 2 ? 60_000 : undefined);
      const items = (await jobs('running')).map((job, index) => ({
        ...job,
        runMs: 1,
        error,
        retryInMs: retryInMs(index),
      }));
      expect(await failJobs(runner, SERVER_ID, items)).toHaveLength(size);
    },
  ],
  [
    'snooze',
    async (runner) => {
      const items = (await jobs('running')).map((job) => ({ ...job, inMs: 60_000 }));
      expect(await snoozeJobs(runner, items)).toHaveLength(size);
    },
  ],
  ['release', async (runner) => expect(await releaseJobs(runner, await jobs('running'))).toHaveLength(size)],
  [
    'stop',
    async (runner) => {
      const items = (await jobs('running')).map((job) => ({ ...job, runMs: 1 }));
      expect(await stopJobs(runner, SERVER_ID, items)).toHaveLength(size);
    },
  ],
  [
    'cancel',
    async (runner) => {
      const ids = [...(await jobs('scheduled')), ...(await jobs('running'))].map(({ id }) => id);
      const changes = await cancelJobs(runner, SERVER_ID, ids);
      expect([changes.length, changes.filter(({ stop }) => stop).length]).toEqual([2 * size, size]);
    },
  ],
  [
    'promote',
    async (runner) => {
      await jobs('scheduled');
      expect(await promoteJobs(runner, size)).toHaveLength(size);
    },
  ],
  [
    'expire',
    async (runner) => {
      const ids = [...(await jobs('scheduled')), ...(await jobs('running'))].map(({ id }) => id);
      await database.pool.query(`update drover.job set expires_at = now() where id = any($1::uuid[])`, [ids]);
      const changes = await expireJobs(runner, SERVER_ID, 2 * size);
      expect([changes.length, changes.filter(({ stop }) => stop).length]).toEqual([2 * size, size]);
    },
  ],
  [
    'progress',
    async (runner) => {
      const items = (await jobs('running')).map((job) => ({ ...job, value: '1' }));
      await createProgressWriter(runner).report(items);
    },
  ],
  [
    'lose grants',
    async (runner) => expect(await loseGrants(runner, SERVER_ID, await jobs('running'))).toHaveLength(size),
  ],
  [
    'inherit',
    async (runner) => {
      const previous = newId();
      await openSession(
        db.control,
        SERVER_ID,
        { ...hello, kind: 'hello', sessionId: previous, holds: [] } as never,
        60_000,
        PROOF,
      );
      const holds = await jobs('running', previous);
      const next = { ...hello, kind: 'hello', sessionId: newId(), holds, previousSessions: previously(previous) };
      // the statements as they are inside of the transaction
      const watched = { ...runner, transaction: <Result>(work: (tx: Runner) => Promise<Result>) => work(runner) };
      const opened = await openSession(watched, SERVER_ID, next as never, 60_000, PROOF);
      expect(opened?.held).toHaveLength(size);
    },
  ],
  [
    'renew',
    async (runner) => {
      const beat = { heard: true, silent_ms: 0, missed_beats: 0, running: 0, draining: false, trouble: undefined };
      const beats = (await sessions()).map((id) => ({ id, ...beat }));
      expect((await renewSessions(runner, SERVER_ID, beats, 3_600_000)).size).toBe(size);
    },
  ],
  [
    'reconcile',
    async (runner) => {
      const ids = await sessions();
      await giveTo(ids[0] as string, await jobs('running'));
      const known = ids.map((id) => sessionOf('work', { id }));
      expect(await releaseUnknownGrants(runner, SERVER_ID, known)).toHaveLength(size);
    },
  ],
  [
    'lose sessions',
    async (runner) => {
      const ids = await sessions();
      await giveTo(ids[0] as string, await jobs('running'));
      await database.pool.query(
        `update drover.session set expires_at = now() - interval '1 h' where id = any($1::uuid[])`,
        [ids],
      );
      await database.pool.query(`update drover.beacon set at = now(), gap_ended_at = now() - interval '1 day'`);
      const limits = { graceMs: 0, leaseMs: 1, maxPulseAgeMs: 3_600_000 };
      const { sessions: lost, changes } = await loseExpiredSessions(runner, SERVER_ID, size, limits);
      expect([lost, changes.length]).toEqual([size, size]);
    },
  ],
  [
    'lose jobs of ended sessions',
    async (runner) => {
      await writeUnguarded(database.pool, `delete from drover.job where state = 'running'`);
      await jobs('running', newId());
      const ended = await sessions();
      await database.pool.query(
        `update drover.session set ended_at = now() - interval '1 h', ending = 'dead' where id = any($1::uuid[])`,
        [ended],
      );
      await giveTo(ended[0] as string, await jobs('running'));
      const changes = await loseOrphans(runner, SERVER_ID, -1000, 2 * size);
      expect([changes.length, changes.filter(({ verb }) => verb === 'release').length]).toEqual([2 * size, size]);
    },
  ],
  [
    'cancel on the way back from a worker',
    async (runner) => {
      const ids = (await jobs('ready')).map(({ id }) => id);
      await database.pool.query(`update drover.job set cancel_requested_at = now() where id = any($1::uuid[])`, [ids]);
      expect(await cancelReturnedJobs(runner, SERVER_ID, size)).toHaveLength(size);
    },
  ],
  [
    'write the next times of schedules',
    async (runner) => {
      const rows = (await schedules()).map((row) => ({ ...row, fired: 0, handledUntilMs: Date.now() }));
      await writeNextTimes(runner, rows);
      const { rows: written } = await database.pool.query(
        'select from drover.schedule where id = any($1) and due_at > now()',
        [rows.map(({ id }) => id)],
      );
      expect(written).toHaveLength(size);
    },
  ],
  [
    'fire schedules',
    async (runner) => {
      await schedules();
      expect(await fireDue(runner, size, { index: 0, of: 1 })).toMatchObject({ taken: size, jobs: size });
    },
  ],
  [
    'fire what another server has left',
    async (runner) => {
      await schedules();
      expect(await fireOverdue(runner, size)).toMatchObject({ taken: size, jobs: size });
    },
  ],
];

function newJobs(options: JobFields) {
  return Array.from({ length: size }, () => rowOf({ payload: {}, ...options }));
}

/** All of them to one session: a way through what it holds, for each of them, would show. */
async function giveTo(session: string, held: { id: string }[]): Promise<void> {
  await database.pool.query('update drover.job set session_id = $1 where id = any($2::uuid[])', [
    session,
    held.map(({ id }) => id),
  ]);
}

/** New ones with one occurrence that is due, to be paused when their jobs fail. */
async function schedules() {
  const { rows } = await database.pool.query<Pick<ScheduleProgress, 'id' | 'name' | 'revision' | 'definition'>>(
    `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at, pause_after_failures)
     select $1 || n, s.definition, s.job, now() - interval '61 minutes', now() - interval '2 s', now() - interval '2 s', 3
     from drover.schedule s, generate_series(1, ${size}) n where s.name = 'first'
     returning id::text as id, name, revision::text as revision, definition`,
    [newId()],
  );
  return rows;
}

/** New ones. */
async function sessions(count = size): Promise<string[]> {
  const { rows } = await database.pool.query<{ id: string }>(
    `insert into drover.session (id, server_id, connection, name, host, pid, sdk, types, slots, expires_at)
     select gen_random_uuid(), $1, 1, 'w', $2, 1, 'test', '{work}', 1, now() + interval '1 hour' from generate_series(1, $3)
     returning id::text as id`,
    [SERVER_ID, HOST, count],
  );
  return rows.map(({ id }) => id);
}

describe('a batch costs its own size', () => {
  test.each(cases)('%s', async (_what, run) => {
    const { runner, seen } = watch(db.control);
    await run(runner);
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.filter(isTooMuch)).toEqual([]);
  });
});
