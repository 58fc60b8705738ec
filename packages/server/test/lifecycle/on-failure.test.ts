/** A job that names another one in `onFailure`: it is added once for each time that the job has failed for good. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cancelJobs } from '../../src/lifecycle/cancel.js';
import type { ClaimedJob } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { expireJobs } from '../../src/lifecycle/expire.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { failJobByHand } from '../../src/lifecycle/fail-by-hand.js';
import { LOST_LIMIT, loseGrants } from '../../src/lifecycle/lose.js';
import { retryJob } from '../../src/lifecycle/retry.js';
import { stopJobs } from '../../src/lifecycle/stop.js';
import { createLifecycleBench, type JobFields, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

const FOLLOWER = 'work/on-failure';
const error = { name: 'Error', message: 'no luck', stack: 'Error: no luck\n at here' };

const running = (fields: JobFields = {}) => bench.running({ onFailure: FOLLOWER, ...fields });
const fail = (job: ClaimedJob, retryInMs?: number) =>
  failJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, error, retryInMs }]);

type Follower = { id: string; queue: string; state: string; tags: string[] | null; payload: { job: object } };

async function followersOf(id: string): Promise<Follower[]> {
  const { rows } = await bench.pool.query<Follower>(
    'select id, queue, state, tags, payload from drover.job where type = $1 and parent_id = $2',
    [FOLLOWER, id],
  );
  return rows;
}

test('a permanent error adds it, with the job and its error in the payload, in the same queue', async () => {
  const job = await running({ queue: 'bank', tags: ['vip'], payload: { text: 'a\u0000b' }, maxAttempts: 3 });
  const changes = await fail(job);
  const [follower, ...others] = await followersOf(job.id);
  expect(others).toEqual([]);
  const { type } = JSON.parse(job.assignment);
  expect(follower).toMatchObject({ queue: 'bank', state: 'ready', tags: ['vip'] });
  expect(follower?.payload).toEqual({
    job: {
      ...{ id: job.id, type, queue: 'bank', attempt: 1, maxAttempts: 3, tags: ['vip'], occurrence: null },
      ...{ payload: { text: 'a\u0000b' }, error },
    },
  });
  expect(changes).toMatchObject([
    { id: job.id, verb: 'fail', to: 'failed' },
    { id: follower?.id, verb: 'enqueue', from: 'new', to: 'ready', type: FOLLOWER, queue: 'bank', attempt: 0 },
  ]);
});

test('the last attempt adds it, and the ones before do not', async () => {
  const job = await running({ maxAttempts: 2 });
  await fail(job, 0);
  expect(await followersOf(job.id)).toEqual([]);
  const { type } = JSON.parse(job.assignment);
  await bench.pool.query(`update drover.job set state = 'ready' where id = $1`, [job.id]);
  const [again] = await bench.claim(1, { types: [type] });
  await fail(again as ClaimedJob, 0);
  expect(await followersOf(job.id)).toMatchObject([{ payload: { job: { attempt: 2 } } }]);
});

test('its expiry adds it', async () => {
  const expiresAt = new Date(Date.now() - 1000).toISOString();
  const [id = ''] = await bench.add({ onFailure: FOLLOWER, expiresAt });
  await expireJobs(bench.db.control, SERVER_ID, 10);
  expect(await followersOf(id)).toMatchObject([{ payload: { job: { error: { code: 'expired' } } } }]);
});

test('losing its worker too often adds it', async () => {
  let job = await running();
  for (let lost = 1; lost < LOST_LIMIT; lost++) {
    await loseGrants(bench.db.control, SERVER_ID, [job]);
    const { type } = JSON.parse(job.assignment);
    [job] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
    // the worker needs it to know which attempt is the last
    expect(JSON.parse(job.assignment)).toMatchObject({ lostAttempts: lost });
  }
  expect(await followersOf(job.id)).toEqual([]);
  await loseGrants(bench.db.control, SERVER_ID, [job]);
  expect(await followersOf(job.id)).toMatchObject([{ payload: { job: { error: { code: 'lost' } } } }]);
});

test('a person who fails an unknown job adds it', async () => {
  const job = await running({ onLost: 'hold' });
  await loseGrants(bench.db.control, SERVER_ID, [job]);
  expect(await followersOf(job.id)).toEqual([]);
  await failJobByHand(bench.db.bulk, SERVER_ID, job.id, 'the bank says no');
  expect(await followersOf(job.id)).toMatchObject([{ payload: { job: { error: { message: 'the bank says no' } } } }]);
});

test('neither a success nor a cancel adds it', async () => {
  const [succeeded, stopped, failedAfterCancel] = [await running(), await running(), await running()];
  await completeJobs(bench.db.control, SERVER_ID, [{ ...succeeded, runMs: 1 }]);
  const [queued = ''] = await bench.add({ type: 'never-claimed', onFailure: FOLLOWER });
  await cancelJobs(bench.db.bulk, SERVER_ID, [queued, stopped.id, failedAfterCancel.id]);
  await stopJobs(bench.db.control, SERVER_ID, [{ ...stopped, runMs: 1 }]);
  await fail(failedAfterCancel);
  expect((await bench.row(failedAfterCancel.id)).state).toBe('cancelled');
  for (const id of [succeeded.id, queued, stopped.id, failedAfterCancel.id]) expect(await followersOf(id)).toEqual([]);
});

test('two servers that write the same failure add it once, and a repeated report adds none', async () => {
  const jobs = [await running(), await running(), await running()];
  const report = () =>
    failJobs(
      bench.db.control,
      SERVER_ID,
      jobs.map((job) => ({ ...job, runMs: 1, error })),
    );
  const both = (await Promise.all([report(), report()])).flat();
  expect(both.filter(({ verb }) => verb === 'enqueue')).toHaveLength(jobs.length);
  expect(await report()).toEqual([]);
  for (const { id } of jobs) expect(await followersOf(id)).toHaveLength(1);
});

test('a failed job that is retried and fails again adds it again', async () => {
  const job = await running();
  await fail(job);
  await retryJob(bench.db.bulk, job.id);
  const { type } = JSON.parse(job.assignment);
  const [again] = await bench.claim(1, { types: [type] });
  await fail(again as ClaimedJob);
  expect(await followersOf(job.id)).toHaveLength(2);
});

test('what it adds has no onFailure of its own, so failures cannot follow each other without end', async () => {
  const type = `own-${newId()}`;
  const [id] = await bench.add({ type, onFailure: type });
  const [job] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
  await fail(job);
  const [follower] = (await bench.claim(10, { types: [type] })) as [ClaimedJob];
  await fail(follower);
  expect(await bench.claim(10, { types: [type] })).toEqual([]);
  expect((await bench.row(follower.id)).parent_id).toBe(id);
});
