/** A worker that leaves while a claim for it is under way. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiBench, createApiBench } from '../../api/api-bench.js';
import { register } from '../../support/raw-worker.js';

let bench: ApiBench;
beforeAll(async () => {
  // Long beats: nothing that repairs comes round while this looks.
  bench = await createApiBench({ beatMs: 10_000, leaseMs: 60_000, pollMs: 100 });
});
afterAll(() => bench.close());

test('what it is granted after it has gone goes back, and no attempt is used up', async () => {
  const { pool } = bench.database;
  const type = `t-${newId()}`;
  const { worker, hello } = await register(bench.port, { types: [type], window: 0 });
  const { body } = await bench.call('/api/v1/jobs', { method: 'POST', body: { type } });
  const { id } = body as { id: string };

  const blocker = await pool.connect();
  await blocker.query('begin; lock table drover.lane in access exclusive mode');
  worker.send({ kind: 'offer', window: 1 });
  const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%slot_group%'`;
  await expect.poll(async () => (await pool.query(waiting)).rowCount, { timeout: 10_000 }).toBe(1);
  // It says bye and does not hear how the server takes its leave, so the connection stands for a while.
  worker.send({ kind: 'bye' });
  worker.pause();
  const ending = async () =>
    (await pool.query('select ending from drover.session where id = $1', [hello.sessionId])).rows[0].ending;
  await expect.poll(ending, { timeout: 10_000 }).toBe('resigned');
  await blocker.query('commit');
  blocker.release();

  const { worker: next } = await register(bench.port, { types: [type], window: 1 });
  const [job] = (await next.next('assign')).jobs;
  expect(job).toMatchObject({ id, fence: 2, attempt: 1 });
  for (const each of [worker, next]) each.terminate();
});
