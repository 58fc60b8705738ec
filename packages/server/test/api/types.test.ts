/** Job types over the API: what they give to jobs that are added by name, and how they are listed and forgotten. */
import { newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createServer } from '../../src/server.js';
import { type RawWorker, register, succeeded } from '../support/raw-worker.js';
import { type ApiBench, createApiBench, errorOf } from './api-bench.js';

let bench: ApiBench;
let workers: RawWorker[] = [];
beforeAll(async () => {
  bench = await createApiBench();
});
afterAll(() => bench.close());
afterEach(async () => {
  for (const worker of workers) {
    worker.send({ kind: 'bye' });
    await worker.closed;
  }
  workers = [];
  await bench.database.pool.query('truncate drover.job');
});

const DEFAULTS = { queue: 'bank', maxAttempts: 1, timeout: 5000, onLost: 'hold' } as const;
const SCHEMA = { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'] };
const WIRE = { type: 'bank.wire', defaults: DEFAULTS, payloadSchema: JSON.stringify(SCHEMA) };
const payload = { amount: 5 };

async function offer(given: object = {}, queues = ['elsewhere']) {
  const { worker } = await register(bench.port, {
    ...{ name: 'banker', types: ['bank.wire'], definitions: [WIRE], queues, window: 10 },
    ...given,
  });
  workers.push(worker);
  return worker;
}

const post = (path: string, body: unknown) => bench.call(path, { method: 'POST', body });
const bulk = (head: object, ...payloads: unknown[]) =>
  bench.call('/api/v1/jobs/bulk', {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: [{ ...head, ids: payloads.map(() => newId()) }, ...payloads].map((line) => JSON.stringify(line)).join('\n'),
  });
const stored = async () => ((await bench.call('/api/v1/jobs')).body as { items: unknown[] }).items;

describe('a job that is added by name', () => {
  test('gets the defaults of its type, and what it brings wins', async () => {
    await offer();
    expect((await post('/api/v1/jobs', { type: 'bank.wire', payload })).body).toEqual({
      ...{ id: expect.any(String), created: true },
    });
    await post('/api/v1/jobs/batch', { jobs: [{ type: 'bank.wire', payload, maxAttempts: 3 }] });
    expect((await bulk({ type: 'bank.wire', priority: 4 }, payload)).body).toEqual({ existed: [] });
    expect(await stored()).toMatchObject([
      { ...DEFAULTS, priority: 4 },
      { ...DEFAULTS, maxAttempts: 3 },
      { ...DEFAULTS, priority: 0 },
    ]);
  });

  test('gets none if it says that it is complete', async () => {
    await offer();
    await post('/api/v1/jobs', { type: 'bank.wire', payload: 'any', complete: true });
    await bulk({ type: 'bank.wire', complete: true }, ...Array(20).fill('any'));
    const jobs = await stored();
    expect(jobs).toHaveLength(21);
    for (const job of jobs) expect(job).toMatchObject({ queue: 'default', maxAttempts: 10, timeout: null });
  });

  const wrong: [what: string, send: () => ReturnType<typeof post>, message: string][] = [
    [
      'one job',
      () => post('/api/v1/jobs', { type: 'bank.wire', payload: { amount: '5' } }),
      'payload.amount: expected a number, got "5" (job type "bank.wire")',
    ],
    [
      'without a payload',
      () => post('/api/v1/jobs', { type: 'bank.wire' }),
      'payload: expected an object, got null (job type "bank.wire")',
    ],
    [
      'a batch',
      () => post('/api/v1/jobs/batch', { jobs: [{ type: 'other' }, { type: 'bank.wire', payload: {} }] }),
      'jobs[1].payload.amount: expected a number, got nothing (job type "bank.wire")',
    ],
    [
      'the bulk format',
      () => bulk({ type: 'bank.wire' }, payload, { amount: null }),
      'jobs[1].payload.amount: expected a number, got null (job type "bank.wire")',
    ],
    [
      'a schedule',
      () =>
        bench.call('/api/v1/schedules/rent', {
          ...{ method: 'PUT', body: { cron: '0 0 * * *', job: { type: 'bank.wire', payload: { amount: [] } } } },
        }),
      'job.payload.amount: expected a number, got [] (job type "bank.wire")',
    ],
  ];
  test.each(wrong)('is refused by the schema of its type: %s', async (_, send, message) => {
    await offer();
    const answer = await send();
    expect({ status: answer.status, ...errorOf(answer) }).toMatchObject({
      status: 400,
      code: 'invalid_request',
      message,
    });
    expect(await stored()).toEqual([]);
  });

  test('is taken before any worker has registered its type, and the answer says so', async () => {
    await offer();
    const message =
      'no worker has registered the type "bank.wier" (did you mean "bank.wire"?); ' +
      'the job got no defaults of its type, and its payload was not checked';
    const warnings = [{ code: 'unknown_type', type: 'bank.wier', message }];
    expect((await post('/api/v1/jobs', { type: 'bank.wier' })).body).toMatchObject({ created: true, warnings });
    expect(
      (await post('/api/v1/jobs/batch', { jobs: [{ type: 'bank.wier' }, { type: 'bank.wier' }] })).body,
    ).toMatchObject({
      warnings,
    });
    expect((await bulk({ type: 'bank.wier' }, 1)).body).toMatchObject({ warnings });
    expect((await bulk({ type: 'bank.wier', complete: true }, 1)).body).toEqual({ existed: [] });
  });

  test('is given at once to a free worker that takes the queue of its type', async () => {
    const worker = await offer({}, ['bank']);
    await post('/api/v1/jobs', { type: 'bank.wire', payload });
    const [job] = (await worker.next('assign')).jobs;
    const { queue, maxAttempts, ...options } = DEFAULTS;
    expect(job).toMatchObject({ queue, maxAttempts, hold: true, options, payload });
    worker.send({ kind: 'outcomes', items: [succeeded(job as never)] });
    await worker.next('ack');
  });

  test('is held by the definition of its worker before the worker has it, whatever its options say', async () => {
    const worker = await offer({}, ['bank', 'default']);
    const mild = { type: 'bank.wire', payload, complete: true, onLost: 'rerun', queue: 'bank' };
    // the first is given with its insert or by a claim; the second certainly waits for a claim
    await post('/api/v1/jobs/batch', { jobs: [mild, { ...mild, delay: 1 }] });
    const jobs = [...(await worker.next('assign')).jobs];
    if (jobs.length < 2) jobs.push(...(await worker.next('assign')).jobs);
    expect(jobs).toMatchObject([{ hold: true }, { hold: true }]);
    expect((await stored()).slice(0, 2)).toMatchObject([{ onLost: 'hold' }, { onLost: 'hold' }]);
    worker.send({ kind: 'outcomes', items: jobs.map((job) => succeeded(job)) });
    await worker.next('ack');
  });
});

test('another server learns of a new type by a hint', async () => {
  const other = createServer(bench.config, { logger: pino({ level: 'silent' }) });
  await other.start();
  try {
    const type = `shared-${newId()}`;
    const { port } = new URL(other.address);
    const add = async () => {
      const body = JSON.stringify({ type });
      const headers = { 'content-type': 'application/json' };
      const url = `http://127.0.0.1:${port}/api/v1/jobs`;
      return (await (await fetch(url, { method: 'POST', headers, body })).json()) as { warnings?: unknown };
    };
    expect(await add()).toHaveProperty('warnings');
    await offer({ types: [type], definitions: [{ type, defaults: { priority: 8 } }] });
    await expect.poll(add, { timeout: 10_000 }).not.toHaveProperty('warnings');
    expect((await stored())[0]).toMatchObject({ type, priority: 8 });
  } finally {
    await other.stop();
  }
});

test('types are listed and shown with their definitions, and forgotten when no live worker offers them', async () => {
  const worker = await offer();
  const { body } = await bench.call('/api/v1/types');
  const listed = { type: 'bank.wire', defaults: DEFAULTS, hasPayloadSchema: true, workers: 1, conflict: false };
  expect((body as { items: unknown[] }).items).toContainEqual(expect.objectContaining(listed));
  expect((await bench.call('/api/v1/types/bank.wire')).body).toMatchObject({
    ...listed,
    ...{ payloadSchema: SCHEMA, definitions: [{ current: true, workers: 1, names: ['banker'] }] },
  });

  const missing = await bench.call('/api/v1/types/bank.wier');
  expect({ status: missing.status, ...errorOf(missing) }).toMatchObject({
    ...{ status: 404, code: 'type_not_found' },
    message: 'no worker has registered the type "bank.wier" (did you mean "bank.wire"?)',
  });
  const forget = () => bench.call('/api/v1/types/bank.wire', { method: 'DELETE' });
  const refused = await forget();
  expect({ status: refused.status, ...errorOf(refused) }).toMatchObject({
    ...{ status: 409, code: 'type_in_use' },
    message: 'cannot forget the job type bank.wire: a live worker offers it',
  });
  worker.send({ kind: 'bye' });
  await worker.closed;
  workers = [];
  expect((await forget()).body).toEqual({ forgotten: true });
  expect((await forget()).body).toEqual({ forgotten: false });
  expect((await bench.call('/api/v1/types/bank.wire')).status).toBe(404);
});
