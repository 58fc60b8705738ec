import { readFile } from 'node:fs/promises';
import { type JobState, LIMITS, newId } from '@drover/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  type Client,
  type ClientOptions,
  createClient,
  defineJob,
  JobCancelledError,
  JobFailedError,
  TimeoutError,
} from '../../src/index.js';
import { type Answer, type Asked, acceptJobs, type HttpPeer, shownJob, startHttpPeer } from '../support/http-peer.js';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function peer(answer: (asked: Asked) => Answer | Promise<Answer>): Promise<HttpPeer> {
  const started = await startHttpPeer(answer);
  closers.push(() => started.close());
  return started;
}

function clientOf(options: ClientOptions): Client {
  const client = createClient({ token: 'secret', ...options });
  closers.push(() => client.close());
  return client;
}

const greet = defineJob({
  type: 'greet',
  queue: 'people',
  payload: z.object({ at: z.string().transform((text) => new Date(text)) }),
  result: z.object({ greeting: z.string() }),
});

describe('enqueue', () => {
  it('sends one job with its defaults, its token and the payload as it was given', async () => {
    const server = await peer(acceptJobs);
    const handle = await clientOf({ url: server.url }).enqueue(greet, { at: '2030-01-01' });
    expect(handle).toMatchObject({ created: true, type: 'greet' });
    expect(server.asked).toMatchObject([
      {
        method: 'POST',
        path: '/api/v1/jobs/bulk',
        jobs: [{ id: handle.id, type: 'greet', queue: 'people', payload: { at: '2030-01-01' } }],
        token: 'Bearer secret',
      },
    ]);
  });

  it('sends options in their parsed form over the defaults', async () => {
    const server = await peer(acceptJobs);
    const options = { queue: 'vip', delay: '2m', priority: undefined } as const;
    await clientOf({ url: server.url }).enqueue(greet, { at: 'now' }, options);
    const [job] = server.asked[0]?.jobs ?? [];
    const sent = { type: 'greet', complete: true, queue: 'vip', delay: 120_000, payload: { at: 'now' } };
    expect(job).toEqual({ id: job?.id, ...sent });
  });

  it('sends calls of one turn as one batch', async () => {
    const server = await peer(acceptJobs);
    const client = clientOf({ url: server.url });
    const handles = await Promise.all([1, 2, 3].map((n) => client.enqueue('bare', n)));
    expect(server.asked.map(({ path }) => path)).toEqual(['/api/v1/jobs/bulk']);
    expect(server.asked[0]?.jobs).toEqual(handles.map(({ id }, index) => ({ id, type: 'bare', payload: index + 1 })));
  });

  it('refuses a payload that does not fit, before anything is sent', async () => {
    const server = await peer(acceptJobs);
    const client = clientOf({ url: server.url });
    await expect(client.enqueue(greet, { at: 5 } as never)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringMatching(/^payload\.at: .*the value is 5$/),
    });
    await expect(client.enqueue('bare', 1, { prioriti: 1 } as never)).rejects.toThrow('did you mean "priority"?');
    await expect(client.enqueue('bare', 1n)).rejects.toThrow(/^payload: expected a value that JSON can represent/);
    await expect(client.enqueue('bare', 1, { delay: 'soon' as never })).rejects.toThrow(/delay: expected a duration/);
    expect(server.asked).toEqual([]);
  });

  it('repeats the same job on the next server when one hangs up', async () => {
    const bad = await peer(() => 'hang up');
    const good = await peer(acceptJobs);
    const client = clientOf({ url: `${bad.url}, ${good.url}` });
    const handle = await client.enqueue('bare', 1);
    expect(bad.asked[0]?.jobs).toMatchObject([{ id: handle.id }]);
    expect(good.asked[0]?.jobs).toMatchObject([{ id: handle.id }]);
    await client.enqueue('bare', 2);
    expect(bad.asked).toHaveLength(1);
  });

  it('waits as long as an overloaded server asks and tries again', async () => {
    let tries = 0;
    const overloaded = { error: { code: 'overloaded', message: 'later' } };
    const server = await peer(() =>
      ++tries === 1 ? { status: 429, body: overloaded, headers: { 'retry-after': '0' } } : acceptJobs(),
    );
    await clientOf({ url: server.url }).enqueue('bare', 1);
    expect(tries).toBe(2);
  });

  it("throws the server's error when repeating cannot help", async () => {
    const server = await peer(() => ({ status: 401, body: { error: { code: 'unauthenticated', message: 'who?' } } }));
    await expect(clientOf({ url: server.url }).enqueue('bare')).rejects.toMatchObject({
      name: 'DroverError',
      code: 'unauthenticated',
      message: 'who?',
    });
    expect(server.asked).toHaveLength(1);
  });

  it('names the server that did not answer after the last try', async () => {
    const server = await peer(() => 'hang up');
    const client = clientOf({ url: server.url, retries: 1 });
    await expect(client.enqueue('bare')).rejects.toMatchObject({
      name: 'ConnectionError',
      message: expect.stringContaining(server.url),
    });
    expect(server.asked).toHaveLength(2);
  });
});

describe('enqueueMany', () => {
  it('splits over the limit of one request and keeps the order', async () => {
    const server = await peer(acceptJobs);
    const payloads = Array.from({ length: LIMITS.batchJobs + 1 }, (_, n) => n);
    const handles = await clientOf({ url: server.url }).enqueueMany('bare', payloads);
    expect(handles).toHaveLength(payloads.length);
    const jobs = server.asked.flatMap((asked) => asked.jobs);
    expect(server.asked.map((asked) => asked.jobs.length)).toEqual([LIMITS.batchJobs, 1]);
    expect(jobs.map(({ id, payload }) => [id, payload])).toEqual(handles.map(({ id }, n) => [id, n]));
  });

  it('splits before a request is too large, whatever its characters take', async () => {
    const server = await peer(acceptJobs);
    const payloads = Array.from({ length: 5 }, (_, n) => `${n}${'€'.repeat(Math.floor(LIMITS.requestBytes / 9))}`);
    const handles = await clientOf({ url: server.url }).enqueueMany('bare', payloads);
    expect(handles).toHaveLength(payloads.length);
    expect(server.asked).toHaveLength(3);
    expect(Math.max(...server.asked.map(({ bytes }) => bytes))).toBeLessThanOrEqual(LIMITS.requestBytes);
    const sent = server.asked.flatMap(({ jobs }) => jobs);
    expect(sent.map(({ payload }) => payload)).toEqual(payloads);
  });

  it('tells of each job whether it existed, over several requests', async () => {
    const server = await peer(() => ({ status: 201, body: { existed: server.asked.length === 1 ? [1] : [0] } }));
    const payloads = Array.from({ length: LIMITS.batchJobs + 2 }, (_, n) => n);
    const handles = await clientOf({ url: server.url }).enqueueMany('bare', payloads);
    const existed = handles.flatMap(({ created }, place) => (created ? [] : [place]));
    expect(existed).toEqual([1, LIMITS.batchJobs]);
  });

  it('takes jobs of different types with options of their own', async () => {
    const server = await peer(acceptJobs);
    await clientOf({ url: server.url }).enqueueMany([
      { job: greet, payload: { at: 'now' } },
      { job: 'bare', payload: 1, options: { priority: 7 } },
    ]);
    expect(server.asked[0]?.jobs).toMatchObject([
      { type: 'greet', queue: 'people', payload: { at: 'now' } },
      { type: 'bare', priority: 7, payload: 1 },
    ]);
  });
});

describe('result', () => {
  const id = '01890000-0000-7000-8000-000000000000';
  const answered = (body: object): Answer => ({ status: 200, body: { id, result: null, error: null, ...body } });

  it('polls until the job has ended and checks the result', async () => {
    let polls = 0;
    const server = await peer((asked) => {
      if (asked.method === 'POST') return acceptJobs();
      if (++polls === 1) return answered({ state: 'running', finished: false });
      return answered({ state: 'succeeded', finished: true, result: { greeting: 'hi' } });
    });
    const client = clientOf({ url: server.url });
    const handle = await client.enqueue(greet, { at: 'now' });
    expect(await handle.result()).toEqual({ greeting: 'hi' });
    expect(server.asked[1]?.path).toBe(`/api/v1/jobs/${handle.id}/result?wait=30000ms`);
  });

  it('throws the state and the error of a job that did not succeed', async () => {
    const error = { name: 'Error', message: 'broken' };
    const failed = await peer(() => answered({ state: 'failed', finished: true, error }));
    const failure = await clientOf({ url: failed.url })
      .job(id)
      .result()
      .catch((reason: unknown) => reason);
    expect(failure).toBeInstanceOf(JobFailedError);
    expect(failure).toMatchObject({ error, message: `job ${id} failed: broken` });
    const cancelled = await peer(() => answered({ state: 'cancelled', finished: true }));
    await expect(clientOf({ url: cancelled.url }).job(id).result()).rejects.toBeInstanceOf(JobCancelledError);
  });

  it('gives up the wait, not the job, when its time is over', async () => {
    const server = await peer(() => answered({ state: 'ready', finished: false }));
    const waiting = clientOf({ url: server.url }).job(id).result({ timeout: 20 });
    await expect(waiting).rejects.toBeInstanceOf(TimeoutError);
  });
});

describe('list', () => {
  it('follows the cursor over all pages', async () => {
    const server = await peer(({ path }) =>
      path.includes('cursor=next')
        ? { status: 200, body: { items: [shownJob({ id: 'b' })], nextCursor: null } }
        : { status: 200, body: { items: [shownJob({ id: 'a' })], nextCursor: 'next' } },
    );
    const ids: string[] = [];
    const filter = { state: ['failed', 'cancelled'], createdAfter: new Date(0) } as const;
    for await (const job of clientOf({ url: server.url }).listAll(filter)) ids.push(job.id);
    expect(ids).toEqual(['a', 'b']);
    expect(server.asked[0]?.path).toBe(
      '/api/v1/jobs?state=failed%2Ccancelled&createdAfter=1970-01-01T00%3A00%3A00.000Z',
    );
  });
});

describe('a change of a job', () => {
  const id = newId();
  const wrongState = (state: string): Answer => ({
    status: 409,
    body: { error: { code: 'wrong_state', message: `it is ${state}`, details: { id, state, expected: [] } } },
  });
  /** Loses the answer to the first request if it is told to; the job is in this state then. */
  async function serverWith(state: JobState, first: 'is lost' | 'is answered'): Promise<HttpPeer> {
    let changes = 0;
    return await peer(({ method }) => {
      if (method === 'GET') return { status: 200, body: shownJob({ id, state }) };
      changes += 1;
      return changes === 1 && first === 'is lost' ? 'hang up' : wrongState(state);
    });
  }
  const cases = [
    ['retry', 'ready', 'succeeded'],
    ['retry', 'running', 'cancelled'],
    ['fail', 'failed', 'succeeded'],
  ] as const;

  it.each(cases)('whose answer is lost is done if it was: %s, %s', async (verb, state) => {
    const server = await serverWith(state, 'is lost');
    expect(await clientOf({ url: server.url }).job(id)[verb]()).toMatchObject({ id, state });
    expect(server.asked.map(({ method }) => method)).toEqual(['POST', 'POST', 'GET']);
  });

  it.each(cases)('is refused if its state is another one: %s, not %s but %s', async (verb, _, state) => {
    const server = await serverWith(state, 'is lost');
    await expect(clientOf({ url: server.url }).job(id)[verb]()).rejects.toMatchObject({ code: 'wrong_state' });
  });

  it.each(cases)('is refused if its first try is: %s, %s', async (verb, state) => {
    const server = await serverWith(state, 'is answered');
    await expect(clientOf({ url: server.url }).job(id)[verb]()).rejects.toMatchObject({ code: 'wrong_state' });
    expect(server.asked).toHaveLength(1);
  });
});

describe('a job whose id is known', () => {
  const id = newId();

  it('has a result that its definition checks', async () => {
    const results: unknown[] = [{ greeting: 'Hello' }, { greeting: 5 }];
    const server = await peer(() => ({
      status: 200,
      body: { id, state: 'succeeded', finished: true, result: results.shift(), error: null },
    }));
    const job = clientOf({ url: server.url }).job(greet, id);
    expect(await job.result({ timeout: '5s' })).toEqual({ greeting: 'Hello' });
    await expect(job.result()).rejects.toThrow(`result of job ${id}.greeting`);
    expect(server.asked[0]?.path).toContain(`/jobs/${id}/result?`);
  });

  it('is refused without an id, before anything is sent', () => {
    const client = clientOf({ url: 'http://127.0.0.1:1' });
    expect(() => client.job('')).toThrow('job: id: expected the id of a job, got ""');
    expect(() => client.job(greet, undefined as never)).toThrow('job: id: expected the id of a job');
  });
});

it('does not pass on an answer that is not what its type says', async () => {
  const server = await peer(() => ({ status: 200, body: { items: [{ id: 5 }], nextCursor: null } }));
  await expect(clientOf({ url: server.url }).list()).rejects.toMatchObject({
    name: 'ConnectionError',
    message: expect.stringMatching(/^the answer to listJobs has an unexpected form: items\[0\]\.id: .*got 5/),
  });
});

it('loads no code of workers', async () => {
  const entry = new URL('../../dist/index.js', import.meta.url);
  const loaded = new Set<string>();
  const load = async (url: string): Promise<void> => {
    if (loaded.has(url)) return;
    loaded.add(url);
    const code = await readFile(new URL(url), 'utf8');
    for (const [, path] of code.matchAll(/^(?:import|export) [^;]*?'(\.[^']+)';/gm))
      await load(new URL(path as string, url).href);
  };
  await load(entry.href);
  expect([...loaded].some((url) => url.includes('/client/'))).toBe(true);
  expect([...loaded].filter((url) => url.includes('/worker/'))).toEqual([]);
});
