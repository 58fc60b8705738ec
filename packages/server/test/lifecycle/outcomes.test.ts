/** The verbs that end an attempt: each right, at the wrong fence, from the wrong state, twice, and two at once. */
import { type JobState, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancelJobs } from '../../src/lifecycle/cancel.js';
import type { Change } from '../../src/lifecycle/change.js';
import type { ClaimedJob } from '../../src/lifecycle/claim.js';
import { completeJobs, completeJobsWithChildren } from '../../src/lifecycle/complete.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { loseGrants } from '../../src/lifecycle/lose.js';
import { releaseJobs } from '../../src/lifecycle/release.js';
import { snoozeJobs } from '../../src/lifecycle/snooze.js';
import { stopJobs } from '../../src/lifecycle/stop.js';
import { idsOf } from '../support/changes.js';
import { createLifecycleBench, type LifecycleBench, rowOf, SERVER_ID } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

type Grant = { id: string; fence: number };
const error = { name: 'Error', message: 'no luck', stack: 'Error: no luck\n at here' };

/** Each verb as a function of grants, and the state it leads to. */
const verbs: Record<string, { apply(grants: Grant[]): Promise<Change[]>; to: JobState }> = {
  complete: {
    apply: (grants) =>
      completeJobs(
        bench.db.control,
        SERVER_ID,
        grants.map((grant) => ({ ...grant, runMs: 1, result: '{"ok":1}' })),
      ),
    to: 'succeeded',
  },
  'complete with children': {
    apply: async (grants) => {
      const child = (parentId: string) => rowOf({ type: 'child', parentId, payload: 1 }).job;
      const changes = await completeJobsWithChildren(
        bench.db.control,
        SERVER_ID,
        grants.map((grant) => ({ ...grant, runMs: 1, children: [child(grant.id)] })),
      );
      return changes.filter(({ verb }) => verb === 'complete');
    },
    to: 'succeeded',
  },
  'fail for now': {
    apply: (grants) =>
      failJobs(
        bench.db.control,
        SERVER_ID,
        grants.map((grant) => ({ ...grant, runMs: 1, error, retryInMs: 60_000 })),
      ),
    to: 'scheduled',
  },
  'fail for good': {
    apply: (grants) =>
      failJobs(
        bench.db.control,
        SERVER_ID,
        grants.map((grant) => ({ ...grant, runMs: 1, error })),
      ),
    to: 'failed',
  },
  snooze: {
    apply: (grants) =>
      snoozeJobs(
        bench.db.control,
        grants.map((grant) => ({ ...grant, inMs: 60_000 })),
      ),
    to: 'scheduled',
  },
  stop: {
    apply: (grants) =>
      stopJobs(
        bench.db.control,
        SERVER_ID,
        grants.map((grant) => ({ ...grant, runMs: 1 })),
      ),
    to: 'cancelled',
  },
  release: { apply: (grants) => releaseJobs(bench.db.control, grants), to: 'ready' },
};

describe.each(Object.entries(verbs))('%s', (_, verb) => {
  const { to } = verb;
  const apply = async (grants: Grant[]) => idsOf(await verb.apply(grants), to);

  test('returns its change, also of a job that was unknown', async () => {
    const running = await bench.running();
    const unknown = await bench.running({ onLost: 'hold' });
    await loseGrants(bench.db.control, SERVER_ID, [unknown]);
    const { type } = await bench.row(unknown.id);
    const changes = await verb.apply([running, unknown]);
    expect(idsOf(changes).sort()).toEqual([running.id, unknown.id].sort());
    expect(changes.find(({ id }) => id === running.id)).toMatchObject({ from: 'running', to });
    expect(changes.find(({ id }) => id === unknown.id)).toMatchObject({ from: 'unknown', to, type, queue: 'default' });
  });

  test('moves a running job', async () => {
    const job = await bench.running();
    expect(await apply([job])).toEqual([job.id]);
    expect((await bench.row(job.id)).state).toBe(to);
  });

  test('changes nothing at the wrong fence', async () => {
    const job = await bench.running();
    expect(await apply([{ id: job.id, fence: job.fence + 1 }])).toEqual([]);
    expect(await apply([{ id: job.id, fence: job.fence - 1 }])).toEqual([]);
    expect((await bench.row(job.id)).state).toBe('running');
  });

  test('changes nothing from another state', async () => {
    const [waiting] = (await bench.add({ type: `wait-${newId()}` })) as [string];
    const [later] = (await bench.add({ delay: 60_000 })) as [string];
    for (const id of [waiting, later]) for (const fence of [0, 1]) expect(await apply([{ id, fence }])).toEqual([]);
    expect((await bench.row(waiting)).state).toBe('ready');
    expect((await bench.row(later)).state).toBe('scheduled');
  });

  test('changes nothing for a job that is finished or does not exist', async () => {
    const job = await bench.running();
    await verbs.complete?.apply([job]);
    expect(await apply([job])).toEqual([]);
    expect(await apply([{ id: newId(), fence: 1 }])).toEqual([]);
    expect((await bench.row(job.id)).state).toBe('succeeded');
  });

  test('works once when it comes twice, also in one batch and at the same time', async () => {
    const [one, two, three] = [await bench.running(), await bench.running(), await bench.running()];
    expect(await apply([one])).toHaveLength(1);
    expect(await apply([one])).toEqual([]);
    expect(new Set(await apply([two, two]))).toEqual(new Set([two.id]));
    const both = await Promise.all([apply([three]), apply([three])]);
    expect(both.flat()).toEqual([three.id]);
  });

  test('against every other verb at the same time, one of the two wins', async () => {
    for (const other of Object.values(verbs)) {
      const job = await bench.running();
      const changed = await Promise.all([verb.apply([job]), other.apply([job])]);
      expect(idsOf(changed.flat())).toEqual([job.id]);
    }
  });

  test('a batch takes the good and leaves the stale', async () => {
    const [good, stale] = [await bench.running(), await bench.running()];
    expect(await apply([good, { ...stale, fence: 99 }])).toEqual([good.id]);
    expect((await bench.row(stale.id)).state).toBe('running');
  });
});

test('a completed job keeps its result and its times', async () => {
  const job = await bench.running();
  await completeJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 250, result: '{"greeting":"Hello \\u0000"}' }]);
  const { rows } = await bench.pool.query(
    'select *, result::text as text, extract(epoch from finished_at - started_at) as seconds from drover.job_history where id = $1',
    [job.id],
  );
  expect(rows[0]).toMatchObject({ text: '{"greeting":"Hello \\u0000"}', attempt: 1, session_id: job.sessionId });
  expect(Number(rows[0].seconds)).toBeCloseTo(0.25);
});

test('H5 children exist only when their parent’s completion counted', async () => {
  const parent = await bench.running();
  const child = newId();
  const [known = ''] = await bench.add({ type: 'child' });
  const children = [child, known].map((id) => rowOf({ id, type: 'child', payload: { n: 1 }, parentId: parent.id }).job);
  const completion = { ...parent, runMs: 1, children };
  expect(await completeJobsWithChildren(bench.db.control, SERVER_ID, [{ ...completion, fence: 7 }])).toEqual([]);
  await expect(bench.row(child)).rejects.toThrow('0 times');
  const changes = await completeJobsWithChildren(bench.db.control, SERVER_ID, [completion]);
  expect(await bench.row(child)).toMatchObject({ state: 'ready', parent_id: parent.id });
  expect(idsOf(changes)).toEqual([parent.id, child]);
  expect(changes[1]).toMatchObject({ verb: 'enqueue', from: 'new', to: 'ready', type: 'child', queue: 'default' });
});

test('a child with an id that was seen before, finished or not, is the same job', async () => {
  const [ready, done, fresh, parent] = [
    ...(await bench.add({ type: 'child-ready', payload: 'first' }, { type: 'child-done', payload: 'first' })),
    newId(),
    await bench.running(),
  ] as [string, string, string, ClaimedJob];
  await bench.runAll('child-done');
  const children = [ready, done, fresh, fresh].map(
    (id) => rowOf({ id, type: 'child', payload: 'second', parentId: parent.id }).job,
  );
  const completion = { ...parent, runMs: 1, children };
  const changes = await completeJobsWithChildren(bench.db.control, SERVER_ID, [completion]);
  expect(idsOf(changes)).toEqual([parent.id, fresh]);
  expect((await bench.row(parent.id)).state).toBe('succeeded');
  expect(await bench.row(ready)).toMatchObject({ type: 'child-ready', payload: 'first', parent_id: null });
  expect(await bench.row(done)).toMatchObject({ state: 'succeeded', payload: 'first' });
  expect(await bench.row(fresh)).toMatchObject({ state: 'ready', payload: 'second', parent_id: parent.id });
});

test('a child with the id of a job that ends in the same statement is that job', async () => {
  const [parent, other] = [await bench.running(), await bench.running()];
  const children = [parent, other].map(({ id }) => rowOf({ id, type: 'child', parentId: parent.id }).job);
  const completions = [
    { ...parent, runMs: 1, children },
    { ...other, runMs: 1, children: [] },
  ];
  const changes = await completeJobsWithChildren(bench.db.control, SERVER_ID, completions);
  expect(idsOf(changes).sort()).toEqual([parent.id, other.id].sort());
  expect((await bench.row(parent.id)).state).toBe('succeeded');
  expect((await bench.row(other.id)).state).toBe('succeeded');
});

test('attempts are used up by failures, and the last one ends the job with all errors kept', async () => {
  const type = `three-${newId()}`;
  const [id] = (await bench.add({ type, maxAttempts: 3 })) as [string];
  for (let attempt = 1; attempt <= 3; attempt++) {
    const [job] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
    expect(job.fence).toBe(attempt);
    await failJobs(bench.db.control, SERVER_ID, [
      { ...job, runMs: 5, error: { ...error, message: `try ${attempt}` }, retryInMs: 0 },
    ]);
    await bench.pool.query(`update drover.job set state = 'ready' where id = $1`, [id]);
  }
  const row = await bench.row(id);
  expect(row).toMatchObject({ state: 'failed', attempt: 3, error: { message: 'try 3', stack: error.stack } });
  const attempts = row.attempts as { attempt: number; outcome: string; error: { message: string } }[];
  expect(attempts.map((entry) => [entry.attempt, entry.outcome, entry.error.message])).toEqual([
    [1, 'failed', 'try 1'],
    [2, 'failed', 'try 2'],
    [3, 'failed', 'try 3'],
  ]);
});

test('of very many attempts the first ten and the latest are kept', async () => {
  const type = `many-${newId()}`;
  const [id] = (await bench.add({ type, maxAttempts: 100 })) as [string];
  for (let attempt = 1; attempt <= 60; attempt++) {
    const [job] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
    await failJobs(bench.db.control, SERVER_ID, [{ ...job, runMs: 1, error, retryInMs: 0 }]);
    await bench.pool.query(`update drover.job set state = 'ready' where id = $1`, [id]);
  }
  const kept = ((await bench.row(id)).attempts as { attempt: number }[]).map((entry) => entry.attempt);
  expect(kept).toHaveLength(50);
  expect(kept.slice(0, 11)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 21]);
  expect(kept.at(-1)).toBe(60);
});

test('snooze and release use up no attempt, and the old grant is void', async () => {
  for (const verb of ['snooze', 'release']) {
    const job = await bench.running();
    await verbs[verb]?.apply([job]);
    expect(await bench.row(job.id)).toMatchObject({ attempt: 0, fence: 1, session_id: null });
    await bench.pool.query(`update drover.job set state = 'ready' where id = $1`, [job.id]);
    const { type } = (await bench.row(job.id)) as { type: string };
    const [again] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
    expect(again.fence).toBe(2);
    expect(JSON.parse(again.assignment).attempt).toBe(1);
    expect(await verbs.complete?.apply([job])).toEqual([]);
    expect(await verbs.complete?.apply([again])).toMatchObject([{ id: job.id }]);
  }
});

test('an attempt that a shutdown stopped is in the list, one that never started is not', async () => {
  const job = await bench.running();
  expect(await releaseJobs(bench.db.control, [{ ...job, runMs: 1500 }])).toMatchObject([{ id: job.id, attempt: 0 }]);
  const { attempts } = (await bench.row(job.id)) as {
    attempts: [{ startedAt: string; finishedAt: string }];
  };
  expect(attempts).toMatchObject([{ attempt: 1, outcome: 'released', error: null }]);
  expect(Date.parse(attempts[0].finishedAt) - Date.parse(attempts[0].startedAt)).toBe(1500);

  const { type } = (await bench.row(job.id)) as { type: string };
  const [again] = (await bench.claim(1, { types: [type] })) as [ClaimedJob];
  await releaseJobs(bench.db.control, [again]);
  expect((await bench.row(job.id)).attempts).toEqual(attempts);
});

test('a failure after a cancel request ends as cancelled instead of being tried again', async () => {
  const job = await bench.running();
  const { id, fence, sessionId } = job;
  expect(await cancelJobs(bench.db.bulk, SERVER_ID, [id])).toMatchObject([
    { id, verb: 'cancel', to: 'running', stop: { fence, sessionId, reason: 'cancelled' } },
  ]);
  await verbs['fail for now']?.apply([job]);
  expect((await bench.row(job.id)).state).toBe('cancelled');
});

test('what happened is in the rollup of the minute', async () => {
  const type = `counted-${newId()}`;
  await bench.add({ type }, { type }, { type, maxAttempts: 1 }, { type });
  const jobs = await bench.claim(4, { types: [type] });
  await verbs.complete?.apply(jobs.slice(0, 2));
  await failJobs(
    bench.db.control,
    SERVER_ID,
    jobs.slice(2).map((job) => ({ ...job, runMs: 3, error, retryInMs: 1000 })),
  );
  const { rows } = await bench.pool.query(
    'select sum(succeeded)::int as succeeded, sum(failed)::int as failed, sum(retried)::int as retried from drover.rollup where type = $1',
    [type],
  );
  expect(rows[0]).toEqual({ succeeded: 2, failed: 1, retried: 1 });
});

test.each([
  ['the progress', `progress = '1'`, 'running'],
  ['the state', `state = 'unknown', lost_attempts = 1`, 'unknown'],
])('an outcome that waits for a change of %s counts, and says from which state it came', async (_, change, from) => {
  for (const { apply, to } of Object.values(verbs)) {
    const job = await bench.running({ onLost: 'hold' });
    const client = await bench.pool.connect();
    await client.query('begin');
    await client.query(`update drover.job set ${change} where id = $1`, [job.id]);
    const changes = apply([job]);
    await bench.untilSomeoneWaits();
    await client.query('commit');
    client.release();
    expect(idsOf(await changes)).toEqual([job.id]);
    expect(await changes).toMatchObject([{ from, to }]);
    expect((await bench.row(job.id)).state).toBe(to);
  }
});
