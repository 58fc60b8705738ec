import { newId } from '@drover/protocol';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ClaimedJob, claimJobs } from '../../src/lifecycle/claim.js';
import { createLifecycleBench, type LifecycleBench } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());
afterEach(async () => {
  await bench.pool.query('truncate drover.job, drover.lane, drover.pause');
});

test('V1 a claimed job is running, held by the session, with its first fence and attempt', async () => {
  const [id] = await bench.add({ payload: { a: 'é"\\' }, timeout: 500, maxAttempts: 2, queue: 'mail' });
  const sessionId = newId();
  const [claimed] = await bench.claim(1, { sessionId });
  expect(claimed).toMatchObject({ id, fence: 1, sessionId });
  expect(JSON.parse(claimed?.assignment ?? '')).toEqual({
    id,
    fence: 1,
    type: 'work',
    queue: 'mail',
    attempt: 1,
    maxAttempts: 2,
    options: { timeout: 500, maxAttempts: 2 },
    payload: { a: 'é"\\' },
  });
  expect(await bench.row(id as string)).toMatchObject({ state: 'running', session_id: sessionId, attempt: 1 });
  expect(await bench.claim()).toEqual([]);
});

test('V1 many claims at once give each job once', async () => {
  const ids = await bench.add(...Array.from({ length: 500 }, () => ({})));
  const claims = await Promise.all(Array.from({ length: 40 }, () => bench.claim(25)));
  const rest = await bench.claim(500);
  const claimed = [...claims.flat(), ...rest].map((job) => job.id);
  expect(claimed).toHaveLength(500);
  expect(new Set(claimed)).toEqual(new Set(ids));
});

test('a larger priority goes first, then the order in which jobs became ready', async () => {
  const [first, second, urgent, low] = await bench.add({}, {}, { priority: 5 }, { priority: -5 });
  const order = [];
  for (let i = 0; i < 4; i++) order.push((await bench.claim())[0]?.id);
  expect(order).toEqual([urgent, first, second, low]);
});

test('priorities hold over all the types and queues that a worker takes', async () => {
  await bench.add(
    { type: 'a', priority: 1 },
    { type: 'b', priority: 9 },
    { type: 'a', priority: 8, queue: 'other' },
    { type: 'b', priority: 3 },
  );
  const seen = [];
  for (let i = 0; i < 4; i++) {
    const [job] = await bench.claim(1, { types: ['a', 'b'] });
    seen.push((await bench.row(job?.id ?? '')).priority);
  }
  expect(seen).toEqual([9, 8, 3, 1]);
});

test('types of equal priority share the slots', async () => {
  await bench.add(...Array.from({ length: 50 }, () => ({ type: 'many' })), { type: 'few' }, { type: 'few' });
  const claimed = await bench.claim(10, { types: ['many', 'few'] });
  const types = claimed.map((job) => JSON.parse(job.assignment).type as string);
  expect(types.filter((type) => type === 'few')).toHaveLength(2);
  expect(types.filter((type) => type === 'many')).toHaveLength(5);
});

test('D1 a worker gets only its types and its queues', async () => {
  await bench.add({ type: 'a', queue: 'x' }, { type: 'a', queue: 'y' }, { type: 'b', queue: 'x' });
  expect(await bench.claim(10, { types: ['c'] })).toEqual([]);
  expect(await bench.claim(10, { types: ['a'], queues: ['z'] })).toEqual([]);
  const fromX = await bench.claim(10, { types: ['a'], queues: ['x'] });
  expect(fromX.map((job) => JSON.parse(job.assignment)).map(({ type, queue }) => ({ type, queue }))).toEqual([
    { type: 'a', queue: 'x' },
  ]);
  expect(await bench.claim(10, { types: ['a', 'b'] })).toHaveLength(2);
});

test('scheduled jobs are not claimed', async () => {
  await bench.add({ delay: 60_000 });
  expect(await bench.claim()).toEqual([]);
});

test('a job that two groups could take goes to one of them', async () => {
  await bench.add({ type: 'shared' }, { type: 'shared' }, { type: 'own' });
  const [one, two] = [newId(), newId()];
  const claimed = await claimJobs(bench.db.control, [
    { types: ['shared'], queues: null, slots: [one, one], ignoresPause: false },
    { types: ['shared', 'own'], queues: null, slots: [two, two, two], ignoresPause: false },
  ]);
  expect(new Set(claimed.map((job) => job.id)).size).toBe(claimed.length);
  const rest = await bench.claim(3, { types: ['shared', 'own'] });
  expect(claimed.length + rest.length).toBe(3);
});

test('the answer names the holder that the row has, and the attempt that it is', async () => {
  const [first] = (await bench.add({ type: 'named', maxAttempts: 4 }, { type: 'other' })) as [string];
  const groups = ['named', 'other'].map((type) => ({
    types: [type],
    queues: null,
    slots: [newId(), newId()],
    ignoresPause: false,
  }));
  const claimed = await claimJobs(bench.db.control, groups);
  expect(claimed).toHaveLength(2);
  for (const { id, fence, sessionId } of claimed) {
    expect(await bench.row(id)).toMatchObject({ session_id: sessionId, fence });
  }
  const [grant] = claimed.filter(({ id }) => id === first) as [ClaimedJob];
  expect(JSON.parse(grant.assignment)).toMatchObject({ fence: 1, attempt: 1, maxAttempts: 4 });
  await bench.pool.query(
    `update drover.job set state = 'ready', session_id = null, fence = 5, attempt = 2 where id = $1`,
    [first],
  );
  const [again] = (await bench.claim(1, { types: ['named'] })) as [ClaimedJob];
  expect(again.fence).toBe(6);
  expect(JSON.parse(again.assignment)).toMatchObject({ fence: 6, attempt: 3, maxAttempts: 4 });
});

test('the slots are filled in their order', async () => {
  await bench.add({}, {}, {});
  const [a, b] = [newId(), newId()];
  const claimed = await claimJobs(bench.db.control, [
    { types: ['work'], queues: null, slots: [a, b, a, b], ignoresPause: false },
  ]);
  expect(claimed.filter((job) => job.sessionId === a)).toHaveLength(2);
  expect(claimed.filter((job) => job.sessionId === b)).toHaveLength(1);
});

test.each([
  ['queue', 'mail'],
  ['type', 'work'],
  ['cluster', ''],
])('P5 nothing of a paused %s is claimed, but by workers that ignore it', async (scope, name) => {
  await bench.add({ queue: 'mail' }, { queue: 'other', type: 'free' });
  await bench.pool.query(`insert into drover.pause (scope, name, paused_by) values ($1, $2, 'me')`, [scope, name]);
  const normal = await bench.claim(10, { types: ['work', 'free'] });
  expect(normal.map((job) => JSON.parse(job.assignment).type)).toEqual(scope === 'cluster' ? [] : ['free']);
  const slots = [newId(), newId()];
  const stubborn = await claimJobs(bench.db.control, [{ types: ['work'], queues: null, slots, ignoresPause: true }]);
  expect(stubborn).toHaveLength(1);
});

test('the claim makes a job one to hold if its worker defines it so, before the worker has it', async () => {
  const slots = [newId(), newId(), newId()];
  const claim = (holdTypes: string[]) =>
    claimJobs(bench.db.control, [{ types: ['a', 'b'], queues: null, holdTypes, slots, ignoresPause: false }]);
  const [careless, other, held] = await bench.add(
    { type: 'a', onLost: 'rerun' },
    { type: 'b' },
    { type: 'b', onLost: 'hold' },
  );
  const grants = new Map((await claim(['a'])).map(({ id, assignment }) => [id, JSON.parse(assignment)]));
  expect(await bench.row(careless as string)).toMatchObject({ state: 'running', hold_if_lost: true });
  expect(await bench.row(other as string)).toMatchObject({ hold_if_lost: false });
  expect(grants.get(careless as string)).toMatchObject({ hold: true });
  expect(grants.get(held as string)).toMatchObject({ hold: true });
  expect(grants.get(other as string)).not.toHaveProperty('hold');

  // it stays so for a worker that defines it otherwise
  await bench.pool.query(`update drover.job set state = 'ready', session_id = null where id = $1`, [careless]);
  const [again] = await claim([]);
  expect(JSON.parse(again?.assignment ?? '')).toMatchObject({ id: careless, hold: true });
});
