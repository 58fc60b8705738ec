/** From enqueue to result through two servers and two workers, each a process of its own. */
import { DroverError, defineJob, JobCancelledError } from '@drover/sdk';
import { beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import type { WorkerProcess } from '../support/start-worker.js';
import { until } from '../support/until.js';

const sum = defineJob<{ a: number; b: number }, { sum: number }>({ type: 'sum' });
const hold = defineJob<{ gate: string }, string>({ type: 'hold' });

const stage = createStage();
let first: ServerProcess;
let second: ServerProcess;
let east: WorkerProcess;
let west: WorkerProcess;

beforeAll(async () => {
  [first, second] = await Promise.all([stage.startServer(), stage.startServer()]);
  [east, west] = await Promise.all([
    stage.startWorker({ name: 'east', url: first.url, slots: 4, queues: ['default', 'east'] }),
    stage.startWorker({ name: 'west', url: second.url, slots: 4, queues: ['default', 'west'] }),
  ]);
  // each server must have heard of the other before hints go from one to the other
  const [one, other] = [stage.client(first.url), stage.client(second.url)];
  for (const client of [one, other])
    await until('both servers are known', async () => (await client.servers()).length === 2);
});

/** The moment on the clock that the witness uses, in milliseconds. */
function now(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

function hasStarted(id: string) {
  return until(`job ${id} has started`, () => stage.witness.events({ id, event: 'start' })[0]);
}

describe('a job', () => {
  test('goes from one call to a typed result, run once', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue(sum, { a: 2, b: 40 });
    expect(handle.created).toBe(true);
    const result = await handle.result({ timeout: '20s' });
    expectTypeOf(result).toEqualTypeOf<{ sum: number }>();
    expect(result).toEqual({ sum: 42 });
    expect(stage.witness.events({ id: handle.id }).map(({ event }) => event)).toEqual(['start', 'end']);
    const job = await handle.get();
    expect(job).toMatchObject({ state: 'succeeded', attempt: 1, payload: { a: 2, b: 40 }, result: { sum: 42 } });
    expect(job.attempts).toMatchObject([{ attempt: 1, outcome: 'succeeded', error: null }]);
  });

  test('D6, V1: is the same job when its enqueue is repeated, also at another server and after its end', async () => {
    const [one, other] = [stage.client(first.url), stage.client(second.url)];
    const handle = await one.enqueue(sum, { a: 1, b: 1 });
    await handle.result({ timeout: '20s' });
    const again = await other.enqueue(sum, { a: 5, b: 5 }, { id: handle.id });
    expect(again).toMatchObject({ id: handle.id, created: false });
    expect(await again.result({ timeout: '20s' })).toEqual({ sum: 2 });
    expect(stage.witness.events({ id: handle.id, event: 'start' })).toHaveLength(1);
  });

  test('D6: can be waited for through another server than the one that finishes it', async () => {
    const handle = await stage.client(second.url).enqueue(hold, { gate: 'elsewhere' }, { queue: 'west' });
    await hasStarted(handle.id);
    const result = stage.client(first.url).job(handle.id).result({ timeout: '20s' });
    west.open('elsewhere');
    expect(await result).toBe('let go');
  });

  test('shows its progress and its worker while it runs', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue('progress', { gate: 'progress' }, { queue: 'west' });
    const job = await until('the progress is seen', async () => {
      const seen = await handle.get();
      return seen.progress !== null && seen;
    });
    expect(job).toMatchObject({ state: 'running', worker: 'west', progress: { done: 42, of: 100 } });
    west.open('progress');
    await handle.result({ timeout: '20s' });
  });

  test.each(['delay', 'runAt'] as const)('waits for its time given as %s', async (kind) => {
    const client = stage.client(first.url);
    const options = kind === 'delay' ? { delay: 1500 } : { runAt: new Date(Date.now() + 1500) };
    const handle = await client.enqueue(sum, { a: 1, b: 2 }, options);
    expect((await handle.get()).state).toBe('scheduled');
    await handle.result({ timeout: '20s' });
    const job = await handle.get();
    expect(Date.parse(job.startedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(job.runAt) - 2);
    expect(Date.parse(job.runAt) - Date.parse(job.createdAt)).toBeGreaterThan(1000);
  });
});

describe('V5: an acknowledged job', () => {
  test('is durable when the server is killed right after its answer', async () => {
    const doomed = await stage.startServer();
    const client = stage.client(doomed.url);
    const one = await client.enqueue('nobody-runs-this', 1);
    const many = await client.enqueueMany(
      'nobody-runs-this',
      Array.from({ length: 500 }, (_, index) => index),
    );
    await doomed.destroy();
    const ids = [one, ...many].map((handle) => handle.id);
    const { rows } = await stage.pool.query('select id from drover.job where id = any($1)', [ids]);
    expect(rows).toHaveLength(501);
    expect((await stage.client(first.url).job(one.id).get()).state).toBe('ready');
    await stage.pool.query("update drover.job set expires_at = now() where type = 'nobody-runs-this'");
  });
});

describe('D3, V4: a cancel', () => {
  test('ends a queued job at once', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue(sum, { a: 1, b: 1 }, { delay: '1h' });
    expect((await handle.cancel()).state).toBe('cancelled');
    await expect(handle.result({ timeout: '5s' })).rejects.toThrow(JobCancelledError);
    // a second cancel finds its work done
    expect((await handle.cancel()).state).toBe('cancelled');
    expect(stage.witness.events({ id: handle.id })).toEqual([]);
  });

  test("reaches the handler on another server's worker within a second", async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue(hold, { gate: 'never' }, { queue: 'west' });
    await hasStarted(handle.id);
    const askedAt = now();
    expect((await handle.cancel()).cancelRequestedAt).not.toBeNull();
    await expect(handle.result({ timeout: '20s' })).rejects.toThrow(JobCancelledError);
    const [aborted] = stage.witness.events({ id: handle.id, event: 'aborted' });
    expect(aborted).toMatchObject({ worker: 'west', reason: 'cancelled' });
    expect((aborted?.at ?? Number.POSITIVE_INFINITY) - askedAt).toBeLessThan(1000);
    const job = await handle.get();
    expect(job).toMatchObject({ state: 'cancelled', attempt: 1 });
    expect(job.attempts).toMatchObject([{ attempt: 1, outcome: 'cancelled', worker: 'west' }]);
  });

  test('leaves the result of a handler that finishes all the same', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue('stubborn', { gate: 'stubborn' }, { queue: 'east' });
    await hasStarted(handle.id);
    await handle.cancel();
    await until('the handler has been told', () => stage.witness.events({ id: handle.id, event: 'aborted' })[0]);
    east.open('stubborn');
    expect(await handle.result({ timeout: '20s' })).toBe('done all the same');
  });

  test('of a job that does not exist is answered so', async () => {
    const missing = stage.client(first.url).job('01900000-0000-7000-8000-000000000000').cancel();
    await expect(missing).rejects.toThrow(DroverError);
    await expect(missing).rejects.toMatchObject({ code: 'job_not_found' });
  });
});

describe('a retry by hand', () => {
  test('runs a cancelled job and starts a waiting one now', async () => {
    const client = stage.client(second.url);
    const handle = await client.enqueue(sum, { a: 3, b: 4 }, { delay: '1h' });
    await handle.cancel();
    await handle.retry();
    expect(await handle.result({ timeout: '20s' })).toEqual({ sum: 7 });
    const waiting = await client.enqueue(sum, { a: 3, b: 5 }, { delay: '1h' });
    await waiting.retry();
    expect(await waiting.result({ timeout: '20s' })).toEqual({ sum: 8 });
    await expect(waiting.retry()).rejects.toMatchObject({ code: 'wrong_state' });
  });

  test('gives a failed job one more attempt', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue('fail', { times: 1 }, { maxAttempts: 1 });
    await expect(handle.result({ timeout: '20s' })).rejects.toThrow('no luck with attempt 1');
    await handle.retry();
    expect(await handle.result({ timeout: '20s' })).toEqual({ attempt: 2 });
    const job = await handle.get();
    expect(job.attempts.map(({ outcome }) => outcome)).toEqual(['failed', 'succeeded']);
  });
});

describe('D11: a job past its expiry', () => {
  const soon = (ms: number) => new Date(Date.now() + ms);

  test('fails while it is queued', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue('nobody-runs-this', null, { expiresAt: soon(300) });
    await expect(handle.result({ timeout: '20s' })).rejects.toMatchObject({ error: { code: 'expired' } });
  });

  test('fails while it runs, and its handler is told to stop', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue(hold, { gate: 'never' }, { queue: 'west', expiresAt: soon(2500) });
    await hasStarted(handle.id);
    await expect(handle.result({ timeout: '20s' })).rejects.toMatchObject({ error: { code: 'expired' } });
    expect(stage.witness.events({ id: handle.id, event: 'aborted' })).toMatchObject([{ reason: 'expired' }]);
    expect(stage.witness.events({ id: handle.id, event: 'start' })).toHaveLength(1);
  });

  test('is never started when it was past it from the beginning', async () => {
    const client = stage.client(first.url);
    const handle = await client.enqueue(sum, { a: 1, b: 1 }, { expiresAt: soon(-1000) });
    await expect(handle.result({ timeout: '20s' })).rejects.toMatchObject({ error: { code: 'expired' } });
    expect(stage.witness.events({ id: handle.id })).toEqual([]);
  });
});

test('a finished job is kept as long as it asks for', async () => {
  const client = stage.client(first.url);
  const brief = await client.enqueue(sum, { a: 1, b: 1 }, { retention: 1 });
  const usual = await client.enqueue(sum, { a: 1, b: 1 });
  await Promise.all([brief, usual].map((handle) => handle.result({ timeout: '20s' }).catch(() => {})));
  // a server forgets what is past its time when it starts, and every ten minutes after that
  const third = await stage.startServer();
  await until('the brief one is forgotten', async () => {
    const found = await brief.get().catch((error: DroverError) => error.code);
    return found === 'job_not_found';
  });
  expect((await usual.get()).state).toBe('succeeded');
  expect(await third.stop()).toBe(0);
});

test('nothing of this made an illegal move', () => {
  expect(stage.illegalMoves()).toEqual([]);
});
