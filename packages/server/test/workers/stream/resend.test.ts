/** A worker that sends its outcomes again because the database is slow to take them. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiBench, createApiBench } from '../../api/api-bench.js';
import { register, succeeded } from '../../support/raw-worker.js';

const AGAIN = 50;

let bench: ApiBench;
beforeAll(async () => {
  bench = await createApiBench({ beatMs: 10_000, leaseMs: 60_000, pollMs: 100 });
});
afterAll(() => bench.close());

const WAITING = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%job_history%'`;

/** Holds every completion up until the answer is called. */
async function holdUp(): Promise<{ seen(): Promise<void>; go(): Promise<void> }> {
  const { pool } = bench.database;
  const blocker = await pool.connect();
  await blocker.query('begin; lock table drover.job_history in access exclusive mode');
  return {
    seen: () => expect.poll(async () => (await pool.query(WAITING)).rowCount, { timeout: 10_000 }).toBe(1),
    async go() {
      await blocker.query('commit');
      blocker.release();
    },
  };
}

/** A worker that holds two jobs. */
async function holdingTwo() {
  const type = `t-${newId()}`;
  const { worker } = await register(bench.port, { types: [type], window: 2 });
  for (let count = 0; count < 2; count++) await bench.call('/api/v1/jobs', { method: 'POST', body: { type } });
  const { jobs } = await worker.next('assign');
  // both come in one frame if the server looked for jobs only after the second was added
  if (jobs.length === 1) jobs.push(...(await worker.next('assign')).jobs);
  const [first, second] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];
  return { worker, first, second };
}

test('they are written once, and acknowledged once', async () => {
  const { worker, first, second } = await holdingTwo();

  const completions = await holdUp();
  for (let count = 0; count < AGAIN; count++) worker.send({ kind: 'outcomes', items: [succeeded(first)] });
  worker.send({ kind: 'outcomes', items: [succeeded(first), succeeded(second)] });
  await completions.seen();
  await completions.go();

  // One at a time, in order: after the answer to the second, nothing is left of the first.
  const acknowledged = [...(await worker.next('ack')).items, ...(await worker.next('ack')).items];
  expect(acknowledged).toEqual([first, second].map(({ id, fence }) => ({ id, fence })));
  worker.send({ kind: 'outcomes', items: [succeeded(first)] });
  expect(await worker.next('ack')).toEqual({ kind: 'ack', items: [], stale: [{ id: first.id, fence: first.fence }] });
  expect(worker.waiting('ack')).toEqual([]);
  worker.terminate();
});

test('in frames with numbers, each is acknowledged after the commit of what it brought', async () => {
  const { worker, first, second } = await holdingTwo();

  const completions = await holdUp();
  worker.send({ kind: 'outcomes', items: [succeeded(first)], batch: 1 });
  worker.send({ kind: 'outcomes', items: [succeeded(first)], batch: 2 });
  worker.send({ kind: 'outcomes', items: [succeeded(first), succeeded(second)], batch: 3 });
  await completions.seen();
  // the server has read all three when it answers a later frame
  worker.send({ kind: 'beat', beat: 1, running: 2, received: 2 });
  await worker.next('beat');
  expect(worker.waiting('ack')).toEqual([]);
  await completions.go();

  const numbers = [await worker.next('ack'), await worker.next('ack'), await worker.next('ack')].map(
    ({ batch }) => batch,
  );
  expect(numbers.sort()).toEqual([1, 2, 3]);
  worker.terminate();
});
