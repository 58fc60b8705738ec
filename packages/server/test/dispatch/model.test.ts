/**
 * Random lives of jobs on a real PostgreSQL against a small model of the state machine. Grants are kept
 * and used again and again, so most outcomes are stale; the model says which of them may count.
 */
import { ALL_STATES, isLegalMove, type JobState, MOVES, newId } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertJobs } from '../../src/admission/insert-jobs.js';
import { cancelJobs, cancelReturnedJobs } from '../../src/lifecycle/cancel.js';
import type { Change } from '../../src/lifecycle/change.js';
import { claimJobs } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { expireJobs } from '../../src/lifecycle/expire.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { LOST_LIMIT, loseExpiredSessions } from '../../src/lifecycle/lose.js';
import { promoteJobs } from '../../src/lifecycle/promote.js';
import { releaseJobs } from '../../src/lifecycle/release.js';
import { retryJob } from '../../src/lifecycle/retry.js';
import { snoozeJobs } from '../../src/lifecycle/snooze.js';
import { stopJobs } from '../../src/lifecycle/stop.js';
import { idsOf } from '../support/changes.js';
import { createLifecycleBench, type LifecycleBench, rowOf, SERVER_ID } from '../support/lifecycle.js';

const SESSIONS = [newId(), newId()] as const;
const MANY = 1000;
/** Few jobs and few grants to choose from, so each has a long life, and a stale grant was valid shortly before. */
const MAX_JOBS = 4;
const RECENT_GRANTS = 6;
const TYPE = 'work';
/** Measured: 90 ms per run, so this takes a quarter of the limit. Fewer runs within the limit are a failure. */
const RUNS = 150;
const LIMIT_MS = 55_000;

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

/** A job as the model sees it. Time is two facts: whether it is due and whether it has expired. */
type ModelJob = {
  id: string;
  state: JobState;
  attempt: number;
  fence: number;
  maxAttempts: number;
  lost: number;
  session: string | null;
  cancelRequested: boolean;
  isDue: boolean;
  expires: 'never' | 'later' | 'now';
};
type Grant = { id: string; fence: number };
type Model = { jobs: ModelJob[]; grants: Grant[] };
type Command = fc.AsyncCommand<Model, LifecycleBench>;

const QUEUED: readonly JobState[] = ['scheduled', 'ready'];
/** The jobs of the model have no parents and no `onLost: "hold"`. */
const MODELED = ALL_STATES.filter((state) => state !== 'blocked' && state !== 'unknown');

/** Counted because a command that finds no suitable job checks nothing. */
const movesMade = new Set<string>();
let staleReports = 0;

/** A verb changes a state only as the table of moves says. */
function move(job: ModelJob, to: JobState, changes: Partial<ModelJob> = {}): void {
  if (!isLegalMove(job.state, to)) throw new Error(`the model itself made an illegal move: ${job.state} to ${to}`);
  movesMade.add(`${job.state} -> ${to}`);
  Object.assign(job, { state: to, session: null }, changes);
}

/** A command that picks its subject by number among what there is then. */
function command(name: string, run: (model: Model, bench: LifecycleBench) => Promise<void>): Command {
  return { check: () => true, run, toString: () => name };
}

const pick = <Item>(items: readonly Item[], number: number): Item | undefined =>
  items[number % Math.max(1, items.length)];

/** The job that a grant is the present one of, if there is any. */
function holderOf(model: Model, grant: Grant): ModelJob | undefined {
  return model.jobs.find(({ id, fence, state }) => id === grant.id && fence === grant.fence && state === 'running');
}

type Added = { delayed: boolean; expires: ModelJob['expires']; maxAttempts: number };

const enqueue = (added: Added) =>
  command(`enqueue(${JSON.stringify(added)})`, async (model, { db }) => {
    if (model.jobs.length >= MAX_JOBS) return;
    const id = newId();
    const expiresAt = { never: undefined, later: '2999-01-01T00:00:00Z', now: '2000-01-01T00:00:00Z' }[added.expires];
    const given = { id, type: TYPE, maxAttempts: added.maxAttempts, ...(added.delayed ? { delay: 3_600_000 } : {}) };
    await insertJobs(db.bulk, [rowOf({ ...given, expiresAt })]);
    model.jobs.push({
      id,
      state: added.delayed ? 'scheduled' : 'ready',
      attempt: 0,
      fence: 0,
      maxAttempts: added.maxAttempts,
      lost: 0,
      session: null,
      cancelRequested: false,
      isDue: !added.delayed,
      expires: added.expires,
    });
  });

const repeatEnqueue = (number: number) =>
  command(`repeat enqueue(${number})`, async ({ jobs }, { db }) => {
    const job = pick(jobs, number);
    if (!job) return;
    const duplicates = await insertJobs(db.bulk, [rowOf({ id: job.id, type: TYPE, payload: 'other' })]);
    expect([...duplicates]).toEqual([job.id]);
  });

const claim = (count: number, session: number) =>
  command(`claim(${count}, ${session})`, async ({ jobs, grants }, { db }) => {
    const sessionId = SESSIONS[session] as string;
    const slots = Array<string>(count).fill(sessionId);
    const claimed = await claimJobs(db.control, [{ types: [TYPE], queues: null, slots, ignoresPause: false }]);
    const claimable = jobs.filter(
      ({ state, expires, cancelRequested }) => state === 'ready' && expires !== 'now' && !cancelRequested,
    );
    expect(claimed).toHaveLength(Math.min(count, claimable.length));
    for (const { id, fence } of claimed) {
      const job = claimable.find((candidate) => candidate.id === id) as ModelJob;
      expect(job).toBeDefined();
      move(job, 'running', { session: sessionId, attempt: job.attempt + 1, fence: job.fence + 1 });
      expect(fence).toBe(job.fence);
      grants.push({ id, fence });
    }
  });

/** A report on a grant, present or stale: `effect` is what the model expects, and the change must say the same. */
function report(
  name: string,
  number: number,
  apply: (grant: Grant, bench: LifecycleBench) => Promise<Change[]>,
  effect: (job: ModelJob) => void,
): Command {
  return command(`${name}(${number})`, async (model, real) => {
    const grant = pick(model.grants.slice(-RECENT_GRANTS), number);
    if (!grant) return;
    const job = holderOf(model, grant);
    const changes = await apply(grant, real);
    expect(idsOf(changes)).toEqual(job ? [job.id] : []);
    if (job) effect(job);
    else staleReports += 1;
    if (job) expect(changes).toMatchObject([{ from: 'running', to: job.state, attempt: job.attempt }]);
  });
}

const error = { name: 'Error', message: 'no luck' };
const ended = { attempts: 'kept' };

const complete = (number: number) =>
  report(
    'complete',
    number,
    (grant, { db }) => completeJobs(db.control, SERVER_ID, [{ ...grant, runMs: 1, result: JSON.stringify(ended) }]),
    (job) => move(job, 'succeeded'),
  );

const fail = (number: number, retryInMs: number | undefined) =>
  report(
    retryInMs === undefined ? 'fail for good' : 'fail',
    number,
    (grant, { db }) => failJobs(db.control, SERVER_ID, [{ ...grant, runMs: 1, error, retryInMs }]),
    (job) => {
      const mayRetry = retryInMs !== undefined && job.attempt - job.lost < job.maxAttempts && !job.cancelRequested;
      if (mayRetry) move(job, 'scheduled', { isDue: false });
      else move(job, job.cancelRequested && job.expires !== 'now' ? 'cancelled' : 'failed');
    },
  );

const snooze = (number: number) =>
  report(
    'snooze',
    number,
    (grant, { db }) => snoozeJobs(db.control, [{ ...grant, inMs: 3_600_000 }]),
    (job) => move(job, 'scheduled', { attempt: job.attempt - 1, isDue: false }),
  );

const release = (number: number) =>
  report(
    'release',
    number,
    (grant, { db }) => releaseJobs(db.control, [grant]),
    (job) => move(job, 'ready', { attempt: job.attempt - 1 }),
  );

const stop = (number: number) =>
  report(
    'stop',
    number,
    (grant, { db }) => stopJobs(db.control, SERVER_ID, [{ ...grant, runMs: 1 }]),
    (job) => move(job, 'cancelled'),
  );

const cancel = (number: number) =>
  command(`cancel(${number})`, async ({ jobs }, { db }) => {
    const job = pick(jobs, number);
    if (!job) return;
    const { id, state, fence, session: sessionId } = job;
    const changes = await cancelJobs(db.bulk, SERVER_ID, [id]);
    expect(idsOf(changes, 'cancelled')).toEqual(QUEUED.includes(state) ? [id] : []);
    const requested = changes.filter(({ stop }) => stop);
    expect(requested).toMatchObject(state === 'running' ? [{ id, stop: { fence, sessionId } }] : []);
    if (job.state === 'running') job.cancelRequested = true;
    else if (QUEUED.includes(job.state)) move(job, 'cancelled');
  });

const retry = (number: number) =>
  command(`retry(${number})`, async ({ jobs }, { db }) => {
    const job = pick(jobs, number);
    if (!job) return;
    const isAllowed = (MOVES.retry.from as readonly JobState[]).includes(job.state);
    expect(idsOf(await retryJob(db.bulk, job.id))).toEqual(isAllowed ? [job.id] : []);
    if (!isAllowed) return;
    // an expiry that has passed goes when a finished job comes back
    const expires = job.expires === 'now' && job.state !== 'scheduled' ? 'never' : job.expires;
    const maxAttempts = Math.max(job.maxAttempts, job.attempt - job.lost + 1);
    move(job, 'ready', { maxAttempts, expires, cancelRequested: false, isDue: true });
  });

const becomeDue = (number: number) =>
  command(`become due(${number})`, async ({ jobs }, { pool }) => {
    const job = pick(jobs, number);
    if (job?.state !== 'scheduled') return;
    await pool.query("update drover.job set run_at = now() - interval '1 second' where id = $1", [job.id]);
    job.isDue = true;
  });

const promote = () =>
  command('promote', async ({ jobs }, { db }) => {
    const due = jobs.filter(({ state, isDue }) => state === 'scheduled' && isDue);
    expect(idsOf(await promoteJobs(db.control, MANY)).sort()).toEqual(due.map(({ id }) => id).sort());
    for (const job of due) move(job, 'ready');
  });

const passExpiry = (number: number) =>
  command(`pass expiry(${number})`, async ({ jobs }, { pool }) => {
    const job = pick(jobs, number);
    if (job?.expires !== 'later' || ![...QUEUED, 'running'].includes(job.state)) return;
    await pool.query("update drover.job set expires_at = now() - interval '1 second' where id = $1", [job.id]);
    job.expires = 'now';
  });

const expire = () =>
  command('expire', async ({ jobs }, { db }) => {
    const past = jobs.filter(({ expires }) => expires === 'now');
    const queued = past.filter(({ state }) => QUEUED.includes(state));
    const running = past.filter(({ state, cancelRequested }) => state === 'running' && !cancelRequested);
    const changes = await expireJobs(db.control, SERVER_ID, MANY);
    expect(idsOf(changes, 'failed').sort()).toEqual(queued.map(({ id }) => id).sort());
    expect(idsOf(changes, 'running').sort()).toEqual(running.map(({ id }) => id).sort());
    for (const job of queued) move(job, 'failed');
    for (const job of running) job.cancelRequested = true;
  });

const cancelReturned = () =>
  command('cancel returned', async ({ jobs }, { db }) => {
    const returned = jobs.filter(({ state, cancelRequested }) => QUEUED.includes(state) && cancelRequested);
    const changes = await cancelReturnedJobs(db.control, SERVER_ID, MANY);
    expect(idsOf(changes).sort()).toEqual(returned.map(({ id }) => id).sort());
    for (const job of returned) move(job, 'cancelled');
  });

const lose = (session: number) =>
  command(`lose(${session})`, async ({ jobs }, { db, pool }) => {
    const sessionId = SESSIONS[session] as string;
    await pool.query("update drover.session set expires_at = now() - interval '1 hour' where id = $1", [sessionId]);
    const held = jobs.filter((job) => job.session === sessionId);
    const { sessions, changes } = await loseExpiredSessions(db.control, SERVER_ID, MANY, {
      graceMs: 0,
      leaseMs: 0,
      maxPulseAgeMs: 3_600_000,
    });
    const isOver = (job: ModelJob) => job.lost + 1 >= LOST_LIMIT;
    const ids = (jobs: ModelJob[]) => jobs.map(({ id }) => id).sort();
    expect(sessions).toBe(1);
    expect(idsOf(changes, 'failed').sort()).toEqual(ids(held.filter(isOver)));
    expect(idsOf(changes, 'ready').sort()).toEqual(ids(held.filter((job) => !isOver(job))));
    for (const job of held) move(job, isOver(job) ? 'failed' : 'ready', { lost: job.lost + 1 });
    await openSessions(pool);
  });

async function openSessions(pool: LifecycleBench['pool']): Promise<void> {
  await pool.query(
    `insert into drover.session (id, name, host, pid, sdk, types, slots, expires_at)
     select id, 'model', 'test', 1, 'model', '{work}', 10, now() + interval '1 day' from unnest($1::uuid[]) id
     on conflict (id) do update set expires_at = excluded.expires_at, ended_at = null, ending = null`,
    [SESSIONS],
  );
}

type Row = Omit<ModelJob, 'isDue' | 'expires' | 'maxAttempts' | 'cancelRequested'> & {
  max_attempts: number;
  cancel_requested: boolean;
  is_hot: boolean;
};

/** Every job is in one table, in the state of the model, with its numbers; only running ones have a holder. */
async function expectAgreement({ jobs }: Model, { pool }: LifecycleBench): Promise<void> {
  const columns =
    'id, state, attempt, fence, max_attempts, lost_attempts as lost, cancel_requested_at is not null as cancel_requested';
  const { rows } = await pool.query<Row>(
    `select ${columns}, session_id as session, true as is_hot from drover.job
     union all select ${columns}, null, false from drover.job_history`,
  );
  const real = rows
    .map(({ is_hot, max_attempts, cancel_requested, ...row }) => ({
      ...row,
      maxAttempts: max_attempts,
      cancelRequested: cancel_requested,
      isHot: is_hot,
    }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  const model = jobs
    .map(({ isDue: _, expires: __, ...job }) => ({ ...job, isHot: [...QUEUED, 'running'].includes(job.state) }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  expect(real).toEqual(model);
  for (const { state, session } of real) expect(session !== null).toBe(state === 'running');
}

const number = fc.nat({ max: 1000 });
const session = fc.nat({ max: SESSIONS.length - 1 });
const added = fc.record({
  delayed: fc.boolean(),
  expires: fc.constantFrom('never' as const, 'later' as const, 'later' as const, 'now' as const),
  maxAttempts: fc.integer({ min: 1, max: 3 }),
});
const commands = [
  added.map(enqueue),
  added.map(enqueue),
  number.map(repeatEnqueue),
  ...Array.from({ length: 5 }, () =>
    fc.tuple(fc.integer({ min: 1, max: 4 }), session).map(([count, holder]) => claim(count, holder)),
  ),
  number.map(complete),
  number.map((which) => fail(which, 3_600_000)),
  number.map((which) => fail(which, undefined)),
  number.map(snooze),
  number.map(release),
  number.map(stop),
  number.map(cancel),
  number.map(retry),
  number.map(becomeDue),
  fc.constant(promote()),
  number.map(passExpiry),
  fc.constant(expire()),
  fc.constant(cancelReturned()),
  session.map(lose),
  session.map(lose),
];

test('any sequence of verbs, with stale grants among them, leaves what the state machine says', async () => {
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { maxCommands: 120, size: 'max' }), async (sequence) => {
      // no row-by-row delete: the guard would rightly refuse it
      await bench.pool.query('truncate drover.job, drover.job_history, drover.session');
      await openSessions(bench.pool);
      const model: Model = { jobs: [], grants: [] };
      await fc.asyncModelRun(() => ({ model, real: bench }), sequence);
      await expectAgreement(model, bench);
    }),
    {
      ...{ seed: 20_261_116, numRuns: RUNS, endOnFailure: true },
      ...{ interruptAfterTimeLimit: LIMIT_MS, markInterruptAsFailure: true },
    },
  );
  const legal = MODELED.flatMap((from) =>
    MODELED.filter((to) => isLegalMove(from, to)).map((to) => `${from} -> ${to}`),
  );
  expect([...movesMade].sort()).toEqual(legal.sort());
  expect(staleReports).toBeGreaterThan(RUNS);
}, 60_000);
