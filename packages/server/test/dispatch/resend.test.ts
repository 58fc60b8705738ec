/** A worker that sends its outcomes again because the database is slow to take them. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { register, succeeded } from './raw-worker.js';

const AGAIN = 50;

let bench: ApiBench;
beforeAll(async () => {
  bench = await createApiBench({ beatMs: 10_000, leaseMs: 60_000, pollMs: 100 });
});
afterAll(() => bench.close());

test('they are written once, and acknowledged once', async () => {
  const { pool } = bench.database;
  const type = `t-${newId()}`;
  const { worker } = await register(bench.port, { types: [type], window: 2 });
  for (let count = 0; count < 2; count++) await bench.call('/api/v1/jobs', { method: 'POST', body: { type } });
  const jobs = [...(await worker.next('assign')).jobs, ...(await worker.next('assign')).jobs];
  const [first, second] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];

  const blocker = await pool.connect();
  await blocker.query('begin; lock table drover.job_history in access exclusive mode');
  for (let count = 0; count < AGAIN; count++) worker.send({ kind: 'outcomes', items: [succeeded(first)] });
  worker.send({ kind: 'outcomes', items: [succeeded(first), succeeded(second)] });
  const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%job_history%'`;
  await expect.poll(async () => (await pool.query(waiting)).rowCount, { timeout: 10_000 }).toBe(1);
  await blocker.query('commit');
  blocker.release();

  // One at a time, in order: after the answer to the second, nothing is left of the first.
  const acknowledged = [...(await worker.next('ack')).items, ...(await worker.next('ack')).items];
  expect(acknowledged).toEqual([first, second].map(({ id, fence }) => ({ id, fence })));
  worker.send({ kind: 'outcomes', items: [succeeded(first)] });
  expect(await worker.next('ack')).toEqual({ kind: 'ack', items: [], stale: [{ id: first.id, fence: first.fence }] });
  expect(worker.waiting('ack')).toEqual([]);
  worker.terminate();
});
