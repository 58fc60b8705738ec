/** The verbs that act on jobs which are not running: promote, cancel, expire, retry; and the loss of a worker. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { movePulse } from '../../src/housekeeping/beacon.js';
import { cancelJobs, cancelReturnedJobs, jobState } from '../../src/lifecycle/cancel.js';
import type { ClaimedJob } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { expireJobs } from '../../src/lifecycle/expire.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { failJobByHand } from '../../src/lifecycle/fail-by-hand.js';
import { loseExpiredSessions, loseGrants } from '../../src/lifecycle/lose.js';
import { promoteJobs, untilNextDueMs } from '../../src/lifecycle/promote.js';
import { releaseJobs } from '../../src/lifecycle/release.js';
import { retryJob } from '../../src/lifecycle/retry.js';
import { idsOf } from '../support/changes.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
  await bench.pool.query(`update drover.beacon set gap_ended_at = now() - interval '1 hour'`);
});
afterAll(() => bench.close());

const HOUR_MS = 3_600_000;
const error = { name: 'Error', message: 'no luck' };

async function age(id: string, column: 'run_at' | 'expires_at'): Promise<void> {
  await bench.pool.query(`update drover.job set ${column} = now() - interval '1 second' where id = $1`, [id]);
}

async function openSession(expiresInMs: number): Promise<string> {
  const id = newId();
  await bench.pool.query(
    `insert into drover.session (id, server_id, name, host, pid, sdk, types, slots, expires_at)
     values ($1, $2, 'w', 'h', 1, 'test', '{work}', 10, now() + $3 * interval '1 millisecond')`,
    [id, SERVER_ID, expiresInMs],
  );
  return id;
}

test('a scheduled job becomes ready when its time has come, and not before', async () => {
  const [due, later] = (await bench.add({ delay: 60_000 }, { delay: 60_000 })) as [string, string];
  await age(due, 'run_at');
  expect(idsOf(await promoteJobs(bench.db.control, 100))).toEqual([due]);
  expect((await bench.row(due)).state).toBe('ready');
  expect((await bench.row(later)).state).toBe('scheduled');
  const next = await untilNextDueMs(bench.db.control);
  expect(next).toBeGreaterThan(50_000);
  expect(next).toBeLessThanOrEqual(60_000);
});

test('many servers promote each job once, at the end of its lane', async () => {
  const type = `promoted-${newId()}`;
  const scheduled = await bench.add(...Array.from({ length: 300 }, () => ({ type, delay: 60_000 })));
  const [waiting] = (await bench.add({ type })) as [string];
  await bench.pool.query(`update drover.job set run_at = now() where type = $1`, [type]);
  const promoted = await Promise.all(Array.from({ length: 10 }, () => promoteJobs(bench.db.control, 40)));
  promoted.push(await promoteJobs(bench.db.control, 1000));
  expect(idsOf(promoted.flat()).sort()).toEqual(scheduled.sort());
  expect((await bench.claim(1, { types: [type] }))[0]?.id).toBe(waiting);
});

test('a queued job is cancelled at once, and only once', async () => {
  const [ready, later] = (await bench.add({}, { delay: 60_000 })) as [string, string];
  expect(idsOf(await cancelJobs(bench.db.bulk, SERVER_ID, [ready, later]), 'cancelled').sort()).toEqual([ready, later]);
  expect((await bench.row(ready)).state).toBe('cancelled');
  expect(await cancelJobs(bench.db.bulk, SERVER_ID, [ready, newId()])).toEqual([]);
  expect(await jobState(bench.db.reads, ready)).toBe('cancelled');
  expect(await jobState(bench.db.reads, newId())).toBeUndefined();
});

test('a cancel and a claim at the same time: the job is either cancelled or asked to stop', async () => {
  for (let round = 0; round < 20; round++) {
    const type = `race-${newId()}`;
    const [id] = (await bench.add({ type })) as [string];
    const [claimed, cancelled] = await Promise.all([
      bench.claim(1, { types: [type] }),
      cancelJobs(bench.db.bulk, SERVER_ID, [id]),
    ]);
    expect(idsOf(cancelled)).toEqual([id]);
    if (claimed.length === 0) expect(cancelled[0]).toMatchObject({ from: 'ready', to: 'cancelled' });
    else expect((await bench.row(id)).cancel_requested_at).not.toBeNull();
  }
});

test('a job that comes back from its worker while a cancel is under way ends as cancelled', async () => {
  const job = await bench.running();
  await cancelJobs(bench.db.bulk, SERVER_ID, [job.id]);
  await releaseJobs(bench.db.control, [job]);
  expect(idsOf(await cancelReturnedJobs(bench.db.control, SERVER_ID, 100), 'cancelled')).toContain(job.id);
  expect((await bench.row(job.id)).state).toBe('cancelled');
});

test('a queued job past its expiry fails with the reason, a running one is asked to stop', async () => {
  const future = new Date(Date.now() + 60_000).toISOString();
  const [ready, later, fresh] = (await bench.add(
    { expiresAt: future },
    { expiresAt: future, delay: 1000 },
    { expiresAt: future },
  )) as [string, string, string];
  const running = await bench.running({ expiresAt: future });
  for (const id of [ready, later, running.id]) await age(id, 'expires_at');
  const expired = await expireJobs(bench.db.control, SERVER_ID, 100);
  expect(new Set(idsOf(expired, 'failed'))).toEqual(new Set([ready, later]));
  const { id, fence, sessionId } = running;
  expect(expired.filter(({ stop }) => stop)).toMatchObject([{ id, stop: { fence, sessionId, reason: 'expired' } }]);
  expect(idsOf(await expireJobs(bench.db.control, SERVER_ID, 100))).toEqual([]);
  expect(await bench.row(ready)).toMatchObject({ state: 'failed', error: { code: 'expired' } });
  expect((await bench.row(fresh)).state).toBe('ready');
  await failJobs(bench.db.control, SERVER_ID, [{ ...running, runMs: 1, error, retryInMs: undefined }]);
  expect((await bench.row(running.id)).state).toBe('failed');
});

test('a failed or cancelled job can be given another attempt', async () => {
  const job = await bench.running({ maxAttempts: 1, tags: ['kept'] });
  await failJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, error, retryInMs: 0 }]);
  expect((await bench.row(job.id)).state).toBe('failed');
  expect(await retryJob(bench.db.bulk, job.id)).toMatchObject([
    { id: job.id, from: 'failed', to: 'ready', attempt: 1 },
  ]);
  const row = await bench.row(job.id);
  expect(row).toMatchObject({ state: 'ready', attempt: 1, max_attempts: 2, fence: 1, tags: ['kept'] });
  expect(row.attempts).toHaveLength(1);
  const [again] = (await bench.claim(1, { types: [row.type as string] })) as [ClaimedJob];
  expect(again.fence).toBe(2);
  expect(await completeJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, result: undefined }])).toEqual([]);
  expect(idsOf(await completeJobs(bench.db.control, SERVER_ID, [{ ...again, runMs: 1 }]))).toEqual([job.id]);
});

test('a retry starts a waiting job now and refuses any other', async () => {
  const [later, ready] = (await bench.add({ delay: 60_000 }, {})) as [string, string];
  expect(await retryJob(bench.db.bulk, later)).toMatchObject([
    { id: later, from: 'scheduled', to: 'ready', attempt: 0 },
  ]);
  expect((await bench.row(later)).state).toBe('ready');
  expect(await retryJob(bench.db.bulk, ready)).toEqual([]);
  const running = await bench.running();
  expect(await retryJob(bench.db.bulk, running.id)).toEqual([]);
  await completeJobs(bench.db.control, SERVER_ID, [{ ...running, runMs: 1, result: undefined }]);
  expect(await retryJob(bench.db.bulk, running.id)).toEqual([]);
  expect(await retryJob(bench.db.bulk, newId())).toEqual([]);
});

test('two retries at once make one job', async () => {
  const job = await bench.running({ maxAttempts: 1 });
  await failJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, error, retryInMs: 0 }]);
  const answers = await Promise.all(Array.from({ length: 5 }, () => retryJob(bench.db.bulk, job.id)));
  expect(idsOf(answers.flat())).toEqual([job.id]);
  expect((await bench.row(job.id)).state).toBe('ready');
});

test('D3 the jobs of a worker whose lease is over go back to the queue; the others stay', async () => {
  const [dead, alive] = [await openSession(-5000), await openSession(60_000)];
  const type = `lost-${newId()}`;
  await bench.add({ type }, { type });
  const [lost] = (await bench.claim(1, { types: [type], sessionId: dead })) as [ClaimedJob];
  const [kept] = (await bench.claim(1, { types: [type], sessionId: alive })) as [ClaimedJob];
  expect(
    await loseExpiredSessions(bench.db.control, SERVER_ID, 10, {
      graceMs: 10_000,
      leaseMs: 1000,
      maxPulseAgeMs: HOUR_MS,
    }),
  ).toMatchObject({
    sessions: 0,
  });
  const limits = { graceMs: 1000, leaseMs: 1000, maxPulseAgeMs: HOUR_MS };
  const { sessions, changes } = await loseExpiredSessions(bench.db.control, SERVER_ID, 10, limits);
  expect([sessions, idsOf(changes, 'ready')]).toEqual([1, [lost.id]]);
  const row = await bench.row(lost.id);
  expect(row).toMatchObject({ state: 'ready', attempt: 1, lost_attempts: 1, session_id: null });
  expect(row.attempts).toMatchObject([{ outcome: 'lost', attempt: 1, worker: 'w', error: { code: 'lost' } }]);
  expect((await bench.row(kept.id)).state).toBe('running');
});

test('a job that loses its worker three times ends as failed, whatever its attempts', async () => {
  const type = `poison-${newId()}`;
  const [id] = (await bench.add({ type, maxAttempts: 1 })) as [string];
  for (let loss = 1; loss <= 3; loss++) {
    const sessionId = await openSession(-5000);
    expect(await bench.claim(1, { types: [type], sessionId })).toHaveLength(1);
    const lost = await loseExpiredSessions(bench.db.control, SERVER_ID, 10, {
      graceMs: 0,
      leaseMs: 1000,
      maxPulseAgeMs: HOUR_MS,
    });
    expect(idsOf(lost.changes)).toEqual([id]);
    expect(lost.changes[0]?.to).toBe(loss === 3 ? 'failed' : 'ready');
  }
  expect(await bench.row(id)).toMatchObject({ state: 'failed', lost_attempts: 3, error: { code: 'lost' } });
});

test('an attempt that was lost does not count against the attempts of a job', async () => {
  const type = `unlucky-${newId()}`;
  const [id] = (await bench.add({ type, maxAttempts: 1 })) as [string];
  await bench.claim(1, { types: [type], sessionId: await openSession(-5000) });
  await loseExpiredSessions(bench.db.control, SERVER_ID, 10, { graceMs: 0, leaseMs: 1000, maxPulseAgeMs: HOUR_MS });
  const [job] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
  await failJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, error, retryInMs: 0 }]);
  expect((await bench.row(id)).state).toBe('failed');
});

test('J5 a job that is to be held becomes unknown, and its worker’s late outcome settles it', async () => {
  const sessionId = await openSession(-5000);
  const type = `held-${newId()}`;
  await bench.add({ type, onLost: 'hold' });
  const [job] = (await bench.claim(1, { types: [type], sessionId })) as [ClaimedJob];
  expect(JSON.parse(job.assignment).options.onLost).toBe('hold');
  const lost = await loseExpiredSessions(bench.db.control, SERVER_ID, 10, {
    graceMs: 0,
    leaseMs: 1000,
    maxPulseAgeMs: HOUR_MS,
  });
  expect(idsOf(lost.changes)).toEqual([job.id]);
  expect(lost.changes).toMatchObject([{ verb: 'lose', from: 'running', to: 'unknown', type, attempt: 1 }]);
  expect(await bench.row(job.id)).toMatchObject({ state: 'unknown', session_id: sessionId });
  expect(await bench.claim(1, { types: [type] })).toEqual([]);
  await completeJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, result: undefined }]);
  expect((await bench.row(job.id)).state).toBe('succeeded');
});

test('J5 a held job that its worker hands back unstarted is no longer in doubt', async () => {
  const sessionId = await openSession(-5000);
  const type = `handed-back-${newId()}`;
  await bench.add({ type, onLost: 'hold' });
  const [job] = (await bench.claim(1, { types: [type], sessionId })) as [ClaimedJob];
  await loseExpiredSessions(bench.db.control, SERVER_ID, 10, { graceMs: 0, leaseMs: 1000, maxPulseAgeMs: HOUR_MS });
  expect(idsOf(await releaseJobs(bench.db.control, [job]))).toEqual([job.id]);
  expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 0, session_id: null });
});

test('J5 a person can retry, fail or cancel an unknown job', async () => {
  const held: ClaimedJob[] = [];
  for (let n = 0; n < 3; n++) held.push(await bench.running({ onLost: 'hold' }));
  const [one, two, three] = held as [ClaimedJob, ClaimedJob, ClaimedJob];
  expect(await failJobByHand(bench.db.bulk, SERVER_ID, one.id, 'too early')).toEqual([]);
  expect(idsOf(await loseGrants(bench.db.control, SERVER_ID, held), 'unknown')).toHaveLength(3);
  expect(await retryJob(bench.db.bulk, one.id)).toMatchObject([{ id: one.id, from: 'unknown', to: 'ready' }]);
  expect((await bench.row(one.id)).state).toBe('ready');
  expect(idsOf(await failJobByHand(bench.db.bulk, SERVER_ID, two.id, 'the bank says no'))).toEqual([two.id]);
  expect(await bench.row(two.id)).toMatchObject({ state: 'failed', error: { message: 'the bank says no' } });
  expect(await cancelJobs(bench.db.bulk, SERVER_ID, [three.id])).toMatchObject([{ id: three.id, from: 'unknown' }]);
  expect(await completeJobs(bench.db.control, SERVER_ID, [{ ...one, runMs: 1, result: undefined }])).toEqual([]);
});

test('what a journal reports as lost goes back at once, once, and only at its fence', async () => {
  const job = await bench.running();
  expect(await loseGrants(bench.db.control, SERVER_ID, [{ ...job, fence: 9 }])).toEqual([]);
  const both = await Promise.all([
    loseGrants(bench.db.control, SERVER_ID, [job]),
    loseGrants(bench.db.control, SERVER_ID, [job]),
  ]);
  expect(idsOf(both.flat(), 'ready')).toEqual([job.id]);
  expect(await bench.row(job.id)).toMatchObject({ state: 'ready', lost_attempts: 1 });
});

test('after a gap in the pulse of the cluster, no worker is declared dead until a lease has passed', async () => {
  const type = `outage-${newId()}`;
  await bench.add({ type });
  await bench.claim(1, { types: [type], sessionId: await openSession(-60_000) });
  await bench.pool.query(`update drover.beacon set at = now() - interval '1 minute'`);
  expect(await movePulse(bench.db.control, 5000)).toBe(true);
  expect(
    await loseExpiredSessions(bench.db.control, SERVER_ID, 10, { graceMs: 0, leaseMs: 30_000, maxPulseAgeMs: HOUR_MS }),
  ).toMatchObject({
    sessions: 0,
  });
  await bench.pool.query(`update drover.beacon set gap_ended_at = now() - interval '31 seconds'`);
  expect(
    await loseExpiredSessions(bench.db.control, SERVER_ID, 10, { graceMs: 0, leaseMs: 30_000, maxPulseAgeMs: HOUR_MS }),
  ).toMatchObject({
    sessions: 1,
  });
});

test('during a gap in the pulse of the cluster, no worker is declared dead', async () => {
  await openSession(-60_000);
  const limits = { graceMs: 0, leaseMs: 1000, maxPulseAgeMs: 5000 };
  await bench.pool.query(
    `update drover.beacon set at = now() - interval '6 seconds', gap_ended_at = now() - interval '1 hour'`,
  );
  expect(await loseExpiredSessions(bench.db.control, SERVER_ID, 10, limits)).toMatchObject({ sessions: 0 });
  await bench.pool.query('update drover.beacon set at = now()');
  expect(await loseExpiredSessions(bench.db.control, SERVER_ID, 10, limits)).toMatchObject({ sessions: 1 });
});

test('a steady pulse is no gap; a clock set back or another timeline is one', async () => {
  await bench.pool.query(`update drover.beacon set at = now() - interval '2 seconds', timeline = 0`);
  expect(await movePulse(bench.db.control, 5000)).toBe(false);
  expect(await movePulse(bench.db.control, 5000)).toBe(false);
  await bench.pool.query(`update drover.beacon set at = now() + interval '1 hour'`);
  expect(await movePulse(bench.db.control, 5000)).toBe(true);
  await bench.pool.query('update drover.beacon set timeline = timeline + 1');
  expect(await movePulse(bench.db.control, 5000)).toBe(true);
});

test('a cancel that waits for a claim or a release decides by the state it then finds', async () => {
  const type = `late-${newId()}`;
  const [claimed = ''] = await bench.add({ type });
  const released = await bench.running();
  const client = await bench.pool.connect();
  await client.query('begin');
  const grant = `state = 'running', fence = fence + 1, attempt = attempt + 1, session_id = gen_random_uuid()`;
  await client.query(`update drover.job set ${grant} where id = $1`, [claimed]);
  await client.query(`update drover.job set state = 'ready', session_id = null where id = $1`, [released.id]);
  const cancelling = cancelJobs(bench.db.bulk, SERVER_ID, [claimed, released.id]);
  await bench.untilSomeoneWaits();
  await client.query('commit');
  client.release();
  const changes = await cancelling;
  expect(idsOf(changes, 'running')).toEqual([claimed]);
  expect(idsOf(changes, 'cancelled')).toEqual([released.id]);
  expect((await bench.row(claimed)).cancel_requested_at).not.toBeNull();
});
