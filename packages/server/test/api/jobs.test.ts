import { request as httpRequest } from 'node:http';
import {
  cancelledJobSchema,
  type JobWithAttempts,
  jobSchema,
  jobWithAttemptsSchema,
  newId,
  ROUTES,
} from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { type ClaimedJob, claimJobs } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { writeUnguarded } from '../support/guard-moves.js';
import { type ApiBench, createApiBench, errorOf } from './api-bench.js';

const SERVER_ID = newId();
let api: ApiBench;
/** Plays the part of another server, whose workers run the jobs. */
let other: Database;
beforeAll(async () => {
  api = await createApiBench();
  other = connectDatabase({ url: api.database.url, poolSize: 2 });
});
afterAll(async () => {
  await other.close();
  await api.close();
});

const JOBS = '/api/v1/jobs';
const post = (path: string, body?: unknown) => api.call(path, { method: 'POST', body });

async function add(fields: object = {}): Promise<string> {
  const answer = await post(JOBS, { type: 'work', ...fields });
  expect(answer.status).toBe(201);
  return (answer.body as { id: string }).id;
}

async function get(id: string): Promise<JobWithAttempts> {
  const answer = await api.call(`${JOBS}/${id}`);
  expect(answer.status).toBe(200);
  return jobWithAttemptsSchema.strict().parse(answer.body) as JobWithAttempts;
}

/** Adds a job and has a worker named `ann` start it. */
async function start(fields: object = {}): Promise<ClaimedJob & { type: string }> {
  const type = `only-${newId()}`;
  await add({ type, ...fields });
  const sessionId = newId();
  await api.database.pool.query(
    `insert into drover.session (id, name, host, pid, sdk, types, slots, expires_at)
     values ($1, 'ann', 'here', 1, 'test', '{}', 1, now() + interval '1 hour')`,
    [sessionId],
  );
  const [claimed] = await claimJobs(other.control, [
    { types: [type], queues: null, slots: [sessionId], ignoresPause: false },
  ]);
  return { ...(claimed as ClaimedJob), type };
}

const succeed = ({ id, fence }: ClaimedJob, result = '{"ok":true}') =>
  completeJobs(other.control, SERVER_ID, [{ id, fence, runMs: 5, result }]);
const fail = ({ id, fence }: ClaimedJob, retryInMs?: number) =>
  failJobs(other.control, SERVER_ID, [{ id, fence, runMs: 5, retryInMs, error: { name: 'Error', message: 'oh' } }]);

describe('adding', () => {
  test('a job is shown as it was given, with every default', async () => {
    const payload = { text: 'ü\u0000\ud83d\ude00', list: [1, null, true, { a: 1e300 }] };
    const id = await add({ payload, queue: 'mail', tags: ['a', 'b'], timeout: '30s', retention: 1000, priority: -3 });
    expect(await get(id)).toMatchObject({
      ...{ id, type: 'work', queue: 'mail', state: 'ready', priority: -3, payload, tags: ['a', 'b'] },
      ...{ timeout: 30_000, retention: 1000, attempt: 0, maxAttempts: 10, attempts: [], result: null, error: null },
      ...{ worker: null, parentId: null, startedAt: null, finishedAt: null, expiresAt: null, backoff: null },
    });
  });

  test('a job without payload has the payload null', async () => {
    expect((await get(await add())).payload).toBeNull();
  });

  test('the same id again is the same job, also after it has finished', async () => {
    const id = newId();
    expect((await post(JOBS, { type: 'once', id })).body).toMatchObject({ id, created: true });
    expect((await post(JOBS, { type: 'once', id: id.toUpperCase() })).body).toMatchObject({ id, created: false });
    await post(`${JOBS}/${id}/cancel`);
    expect((await post(JOBS, { type: 'once', id })).body).toMatchObject({ id, created: false });
    const { body } = await post(`${JOBS}/batch`, { jobs: [{ type: 'once' }, { type: 'once', id }] });
    expect(body).toMatchObject({ items: [{ created: true }, { id, created: false }] });
    expect((await get(id)).state).toBe('cancelled');
  });

  test('a batch is answered in its order', async () => {
    const known = await add();
    const jobs = [{ type: 'a', id: newId() }, { type: 'a', id: known }, { type: 'a' }];
    const answer = await post(`${JOBS}/batch`, { jobs });
    expect(answer.status).toBe(201);
    const { items } = answer.body as { items: { id: string; created: boolean }[] };
    expect(items.map(({ created }) => created)).toEqual([true, false, true]);
    expect(items.slice(0, 2).map(({ id }) => id)).toEqual([jobs[0]?.id, known]);
  });

  test('an id that comes twice in a batch is one job, which the first one made', async () => {
    const id = newId();
    const { body } = await post(`${JOBS}/batch`, {
      jobs: [
        { type: 'a', id },
        { type: 'b', id: id.toUpperCase() },
      ],
    });
    expect(body).toMatchObject({
      items: [
        { id, created: true },
        { id, created: false },
      ],
    });
    expect((await get(id)).type).toBe('a');
  });

  test('a payload is stored as JavaScript reads it', async () => {
    const texts: [sent: string, stored: string][] = [
      ['[1, 2.0, 1e3,\t"\\u0061"]', '[1,2,1000,"a"]'],
      ['{"a":1,"a":2}', '{"a":2}'],
      ['{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}'],
      ['"\\u0000\\ud800"', '"\\u0000\\ud800"'],
    ];
    for (const [sent, stored] of texts) {
      const { body } = await post(JOBS, `{"type":"text","payload":${sent}}`);
      const text = 'select payload::text from drover.job where id = $1';
      const { rows } = await api.database.pool.query(text, [(body as { id: string }).id]);
      expect(rows).toEqual([{ payload: stored }]);
    }
  });

  test('an empty batch is fine', async () => {
    expect((await post(`${JOBS}/batch`, { jobs: [] })).body).toEqual({ items: [] });
  });

  test('an id that is a little ahead of time is taken', async () => {
    const ahead = (Date.now() + 23 * 3_600_000).toString(16).padStart(12, '0');
    const id = `${ahead.slice(0, 8)}-${ahead.slice(8)}-7000-8000-000000000000`;
    expect(await add({ id })).toBe(id);
  });
});

describe('one job', () => {
  test('shows the attempt that is under way, and by whom', async () => {
    const job = await start();
    const shown = await get(job.id);
    expect(shown).toMatchObject({ state: 'running', attempt: 1, worker: 'ann' });
    expect(shown.attempts).toMatchObject([
      { attempt: 1, outcome: 'running', worker: 'ann', finishedAt: null, error: null },
    ]);
  });

  test('shows failed attempts before the one that succeeded', async () => {
    const job = await start({ maxAttempts: 2 });
    await fail(job, 60_000);
    await post(`${JOBS}/${job.id}/retry`);
    const [again] = await claimJobs(other.control, [
      { types: [job.type], queues: null, slots: [newId()], ignoresPause: false },
    ]);
    await succeed(again as ClaimedJob);
    const shown = await get(job.id);
    expect(shown).toMatchObject({ state: 'succeeded', result: { ok: true }, attempt: 2, error: null });
    expect(shown.attempts).toMatchObject([
      { attempt: 1, outcome: 'failed', worker: 'ann', error: { message: 'oh' } },
      { attempt: 2, outcome: 'succeeded', error: null, finishedAt: shown.finishedAt },
    ]);
  });

  test('can be looked at by HEAD', async () => {
    const answer = await api.call(`${JOBS}/${await add()}`, { method: 'HEAD' });
    expect([answer.status, answer.text]).toEqual([200, '']);
  });
});

describe('cancel and retry', () => {
  test('a waiting job is cancelled at once, and comes back by a retry', async () => {
    const id = await add();
    const cancel = async () => cancelledJobSchema.strict().parse((await post(`${JOBS}/${id}/cancel`)).body);
    expect(await cancel()).toMatchObject({ id, state: 'cancelled', alreadyCancelled: false });
    expect(await cancel()).toMatchObject({ id, state: 'cancelled', alreadyCancelled: true });
    expect(jobSchema.strict().parse((await post(`${JOBS}/${id}/retry`, {})).body)).toMatchObject({
      id,
      state: 'ready',
    });
  });

  test('a running job is asked to stop', async () => {
    const { id } = await start();
    const { body } = await post(`${JOBS}/${id}/cancel`);
    expect(body).toMatchObject({ state: 'running', cancelRequestedAt: expect.any(String), alreadyCancelled: false });
  });

  test('a state that does not allow it is named, with those that do', async () => {
    const job = await start();
    expect(errorOf(await post(`${JOBS}/${job.id}/retry`))).toMatchObject({
      code: 'wrong_state',
      message: expect.stringMatching(/running.*failed/),
      details: { state: 'running', expected: expect.arrayContaining(['failed', 'cancelled']) },
    });
    await succeed(job);
    const answer = await post(`${JOBS}/${job.id}/cancel`);
    expect([answer.status, errorOf(answer).details]).toMatchObject([409, { state: 'succeeded' }]);
  });
});

describe('the result', () => {
  const result = (id: string, query = '') => api.call(`${JOBS}/${id}/result${query}`);

  test('is the present state if the call does not wait', async () => {
    const id = await add();
    const { body } = await result(id);
    expect(ROUTES.jobResult.answer.parse(body)).toEqual({
      id,
      state: 'ready',
      finished: false,
      result: null,
      error: null,
    });
  });

  test('is given as soon as the job has finished, also by another server', async () => {
    const job = await start();
    const answer = result(job.id, '?wait=30s');
    await succeed(job, '[1]');
    expect((await answer).body).toEqual({ id: job.id, state: 'succeeded', finished: true, result: [1], error: null });
  });

  test('is the present state when the time is over', async () => {
    const { body } = await result(await add(), '?wait=50ms');
    expect(body).toMatchObject({ state: 'ready', finished: false });
  });

  test('of a failed job is its error', async () => {
    const job = await start();
    await fail(job);
    expect((await result(job.id, '?wait=1s')).body).toMatchObject({ state: 'failed', error: { message: 'oh' } });
  });

  test('is no longer waited for when the client has gone', async () => {
    const path = `${JOBS}/${await add()}/result?wait=100s`;
    await new Promise<void>((resolve) => {
      const request = httpRequest({ host: '127.0.0.1', port: api.port, path, agent: false });
      request.on('error', () => resolve());
      request.on('socket', (socket) => socket.on('connect', () => setImmediate(() => request.destroy())));
      request.end();
    });
    expect((await api.call('/api/ping')).status).toBe(200);
  });
});

test('a list has the form that the route says', async () => {
  const id = await add({ queue: 'listed' });
  const { body } = await api.call(`${JOBS}?queue=listed&state=ready,running&state=failed&limit=5`);
  const page = ROUTES.listJobs.answer.strict().parse(body);
  expect(page.items.map((job) => job.id)).toEqual([id]);
  expect(page.nextCursor).toBeNull();
});

test('a list leaves out what may be large, unless it is asked for', async () => {
  const tag = 'large';
  const ids = [await add({ tags: [tag], payload: { a: [1, null] } }), await add({ tags: [tag] })];
  const parts = `progress = '"half"'`;
  await writeUnguarded(api.database.pool, `update drover.job set ${parts} where id = '${ids[0]}'`);
  await writeUnguarded(
    api.database.pool,
    `with gone as (delete from drover.job where id = '${ids[0]}' returning *)
    insert into drover.job_history (id, state, queue, type, tags, created_at, run_at, finished_at, fence, attempt,
      max_attempts, lost_attempts, priority, payload, progress, result, error)
    select id, 'failed', queue, type, tags, created_at, run_at, now(), 1, 1, 10, 0, 0, payload, progress, '{"b": "\\u0000"}',
      '{"name": "E", "message": "m", "stack": "long", "code": "c"}' from gone`,
  );
  const first = async (query: string) => {
    const { body } = await api.call(`${JOBS}?tag=${tag}&state=failed${query}`);
    return ROUTES.listJobs.answer.parse(body).items[0];
  };
  const plain = await first('');
  expect(plain).toMatchObject({ id: ids[0], error: { name: 'E', message: 'm', code: 'c' } });
  expect(plain?.error).not.toHaveProperty('stack');
  for (const part of ['payload', 'result', 'progress']) expect(plain).not.toHaveProperty(part);
  expect(await first('&include=payload,result')).toMatchObject({ payload: { a: [1, null] }, result: { b: '\0' } });
  expect(await first('&include=payload')).not.toHaveProperty('result');
  expect(await first('&include=progress&include=stack')).toMatchObject({ progress: 'half', error: { stack: 'long' } });
  const whole = await api.call(`${JOBS}/${ids[0]}`);
  expect(whole.body).toMatchObject({ payload: { a: [1, null] }, progress: 'half', error: { stack: 'long' } });
  // stored JSON is passed on as it is
  expect(whole.text).toContain('{"b": "\\u0000"}');
  const wrong = await api.call(`${JOBS}?include=attempts`);
  expect(errorOf(wrong).message).toContain('expected one of "payload", "result", "progress", "stack"');
});
