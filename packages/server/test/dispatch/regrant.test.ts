/** A job that its worker hands back and is given again, before the server has heard that it was handed back. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { type AnswerHolder, startAnswerHolder } from '../support/answer-holder.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { register, succeeded } from '../support/raw-worker.js';

let database: TestDatabase;
let holder: AnswerHolder;
let bench: ApiBench;
beforeAll(async () => {
  database = await createTestDatabase();
  holder = await startAnswerHolder(database.url);
  bench = await createApiBench({ databaseUrl: holder.url, beatMs: 200, leaseMs: 20_000, pollMs: 50 });
});
afterAll(async () => {
  await bench.close();
  await holder.close();
  await database.drop();
});

test('the second grant is the worker’s own', async () => {
  const type = `t-${newId()}`;
  const { worker } = await register(bench.port, { types: [type], slots: 2, window: 10 });
  await bench.call('/api/v1/jobs', { method: 'POST', body: { type } });
  const [first] = (await worker.next('assign')).jobs;
  const { id = '', fence = 0 } = first ?? {};

  const pass = holder.holdAnswersTo('release');
  worker.send({ kind: 'outcomes', items: [{ kind: 'released', id, fence }] });
  const [second] = (await worker.next('assign')).jobs;
  expect(second).toMatchObject({ id, fence: fence + 1 });
  pass();
  await worker.next('ack');

  worker.send({ kind: 'outcomes', items: [succeeded({ id, fence: fence + 1 })] });
  expect(await worker.next('ack')).toMatchObject({ items: [{ id, fence: fence + 1 }], stale: [] });
  const { body } = await bench.call(`/api/v1/jobs/${id}`);
  expect(body).toMatchObject({ state: 'succeeded' });
});
