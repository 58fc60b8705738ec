/** Runs of workflows over two servers, by the HTTP API and by the client, with workers of the SDK. */
import type { Job, JobRun, Run, RunWithSteps, Workflow } from '@drover/protocol';
import { defineJob, defineWorkflow, each, gt, type Value } from '@drover/sdk';
import { createWorker, type Worker } from '@drover/sdk/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const stage = createStage();
let first: ServerProcess;
let second: ServerProcess;
let worker: Worker;
const undone: unknown[] = [];
/** What handlers and listeners were told of their run. */
const told: (JobRun | undefined)[] = [];

const fetchSite = defineJob<{ url: string }, { pages: string[] }>({
  type: 'site.fetch',
  run: ({ payload }) => ({ pages: [1, 2, 3].map((page) => `${payload.url}/${page}`) }),
});
const parsePage = defineJob<{ page: string }, { words: number }>({
  type: 'page.parse',
  run: ({ payload, run }) => {
    told.push(run);
    return { words: payload.page.length };
  },
});
const makeReport = defineJob<{ words: number[] }, number>({
  type: 'report.make',
  run: ({ payload }) => payload.words.reduce((sum, words) => sum + words, 0),
});
let isBroken = true;
const breakable = defineJob<null, string>({
  type: 'breakable',
  maxAttempts: 1,
  run: () => {
    if (isBroken) throw new Error('out of order');
    return 'works';
  },
});
const undo = defineJob<unknown, null>({
  type: 'undo',
  run: ({ payload }) => {
    undone.push(payload);
    return null;
  },
});
const wait = defineJob<null, null>({
  type: 'wait',
  run: ({ signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
});

const crawl = {
  steps: {
    fetch: { type: 'site.fetch', input: { url: { $: 'input.url' } } },
    parse: { type: 'page.parse', over: { $: 'fetch.output.pages' }, input: { page: { $: 'item' } }, concurrency: 2 },
    report: {
      type: 'report.make',
      input: { words: { $: 'parse.output.*.words' } },
      if: { gt: [{ $: 'fetch.output.pages.length' }, 0] },
    },
  },
  output: { total: { $: 'report.output' } },
};

beforeAll(async () => {
  [first, second] = await Promise.all([stage.startServer(), stage.startServer()]);
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const jobs = [fetchSite, parsePage, makeReport, breakable, undo, wait];
  worker = createWorker({ url: [first.url, second.url], jobs, logger });
  worker.on('succeeded', ({ type, run }) => {
    if (type === 'report.make') told.push(run);
  });
  await worker.start();
});
afterAll(() => worker.stop());

async function call<Answer>(method: string, path: string, body?: unknown, server = first): Promise<Answer> {
  const answer = await fetch(`${server.url}/api/v1${path}`, {
    method,
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  const parsed = await answer.json();
  if (!answer.ok) throw new Error(parsed.error.message);
  return parsed as Answer;
}

function ended(id: string, server = first): Promise<RunWithSteps> {
  return until(`run ${id} has ended`, async () => {
    const run = await call<RunWithSteps>('GET', `/runs/${id}`, undefined, server);
    return run.state === 'running' ? undefined : run;
  });
}

async function start(workflow: string, input: unknown = null): Promise<string> {
  return (await call<Run>('POST', '/runs', { workflow, input })).id;
}

test('J8: a workflow runs its steps in order, maps over a list, and gives its output', async () => {
  const registered = await call<Workflow>('PUT', '/workflows/crawl', crawl);
  expect(registered).toMatchObject({ name: 'crawl', version: 1, steps: 3 });
  expect(await call('PUT', '/workflows/crawl', crawl, second)).toEqual(registered);
  const id = await start('crawl', { url: 'https://example.com' });
  const run = await ended(id, second);
  expect(run).toMatchObject({ state: 'succeeded', output: { total: 63 }, error: null, version: 1 });
  expect(run.steps).toMatchObject([
    { name: 'fetch', state: 'succeeded', attempt: 1, after: [] },
    { name: 'parse', state: 'succeeded', items: { total: 3, running: 0, ended: 3, failed: 0 } },
    {
      name: 'report',
      state: 'succeeded',
      after: [
        { step: 'fetch', on: 'success' },
        { step: 'parse', on: 'success' },
      ],
    },
  ]);
  expect(await call('POST', '/runs', { workflow: 'crawl', id })).toMatchObject({ id, state: 'succeeded' });
  expect(await call('GET', '/runs?workflow=crawl')).toMatchObject({ items: [{ id }], nextCursor: null });
});

test('D4: a step knows its run, and the jobs of a run can be found', async () => {
  await call<Workflow>('PUT', '/workflows/crawl', crawl);
  told.length = 0;
  const id = await start('crawl', { url: 'https://example.com' });
  await ended(id);
  const steps = [...[0, 1, 2].map((item) => ({ id, step: 'parse', item })), { id, step: 'report', item: null }];
  const order = (runs: typeof told) => runs.map((run) => JSON.stringify(run)).sort();
  expect(order(told)).toEqual(order(steps));
  const { items } = await call<{ items: Job[] }>('GET', `/jobs?run=${id}`, undefined, second);
  const runs = items.map(({ run }) => run ?? undefined);
  expect(order(runs)).toEqual(order([{ id, step: 'fetch', item: null }, ...steps]));
  expect(await call('GET', `/jobs/${items[0]?.id}`)).toMatchObject({ run: items[0]?.run });
});

test('J8: a failed run undoes what has succeeded, and can be retried once the cause is gone', async () => {
  await call('PUT', '/workflows/fragile', {
    steps: {
      one: { type: 'breakable' },
      two: { type: 'undo', input: 'after one', after: ['one'] },
    },
  });
  const id = await start('fragile');
  expect(await ended(id)).toMatchObject({
    state: 'failed',
    error: { step: 'one', error: { message: 'out of order' } },
  });
  isBroken = false;
  await call('POST', `/runs/${id}/retry`);
  expect(await ended(id)).toMatchObject({ state: 'succeeded', tries: 2, error: null });
  isBroken = true;
  await call('PUT', '/workflows/undoing', {
    steps: {
      book: {
        type: 'site.fetch',
        input: { url: 'x' },
        undo: { type: 'undo', input: { pages: { $: 'book.output.pages.0' } } },
      },
      pay: { type: 'breakable', after: ['book'] },
    },
    finally: { type: 'undo', input: 'finally' },
  });
  undone.length = 0;
  const other = await start('undoing');
  expect(await ended(other)).toMatchObject({ state: 'failed', error: { step: 'pay' } });
  expect(undone).toEqual([{ pages: 'x/1' }, 'finally']);
  await expect(call('POST', `/runs/${other}/retry`)).rejects.toThrow('its steps were undone: start a new run');
});

test('J8: a cancel reaches the jobs of a run and of the runs that it waits for', async () => {
  await call('PUT', '/workflows/inner', { steps: { wait: { type: 'wait' } } });
  await call('PUT', '/workflows/outer', { steps: { inner: { workflow: 'inner' }, wait: { type: 'wait' } } });
  const id = await start('outer');
  await until('the inner run waits', async () => {
    const run = await call<RunWithSteps>('GET', `/runs/${id}`);
    return run.steps.every(({ state }) => state === 'running');
  });
  await call('POST', `/runs/${id}/cancel`);
  expect(await ended(id)).toMatchObject({ state: 'cancelled' });
  expect(await call('GET', `/runs?parent=${id}`)).toMatchObject({
    items: [{ state: 'cancelled', parent: { run: id, step: 'inner' } }],
  });
});

test('J8: a workflow in TypeScript registers itself, passes on typed values, and gives a typed output', async () => {
  const site = defineWorkflow<{ url: string }, { total: Value<number> }>(
    { name: 'typed-site' },
    ({ input, step, map }) => {
      const fetched = step('fetch', fetchSite, { url: input.url });
      const parsed = map('parse', fetched.output.pages, parsePage, (page) => ({ page }), { concurrency: 2 });
      return { total: step('sum', makeReport, { words: each(parsed.output).words }).output };
    },
  );
  const both = defineWorkflow(
    { name: 'typed', input: z.object({ urls: z.array(z.string()) }) },
    ({ input, step, map, run }) => {
      const sites = map('sites', input.urls, site, (url) => ({ url }));
      const first = step('first', makeReport, { words: each(sites.output).total });
      const never = step('never', makeReport, { words: [] }, { if: gt(first.output, 1000) });
      step('note', undo, { run: run.id, first: first.output }, { after: { step: never, on: 'always' } });
      return { first: first.output, never: never.output, id: run.id };
    },
  );
  const client = stage.client([first.url, second.url]);
  undone.length = 0;
  const run = await client.start(both, { urls: ['a', 'bcd'] });
  expect(await run.result({ timeout: '30s' })).toEqual({ first: 24, never: null, id: run.id });
  expect(undone).toEqual([{ run: run.id, first: 24 }]);
  expect(await run.get()).toMatchObject({ workflow: 'typed', version: 1, state: 'succeeded' });
  const again = await client.start(both, { urls: [] }, { id: run.id });
  expect(await again.result()).toEqual({ first: 24, never: null, id: run.id });
  await expect(client.start(both, { urls: 'a' } as never)).rejects.toThrow('input.urls');
  expect((await client.workflows.get('typed')).definition).toMatchObject({
    steps: { sites: { workflow: 'typed-site' } },
  });
  expect((await client.workflows.list({ limit: 1000 })).items.map(({ name }) => name)).toContain('typed-site');

  const repeated = await run.repeat({ from: 'never' });
  expect(await repeated.result()).toMatchObject({ first: 24, id: repeated.id });
  expect((await client.runs({ workflow: 'typed' })).items.map(({ id }) => id)).toEqual([repeated.id, run.id]);
});

test('J8: a wait for the output of a run says how it ended, and a failed run is retried by its handle', async () => {
  const client = stage.client([second.url, first.url]);
  const fragile = defineWorkflow({ name: 'fragile-typed' }, ({ step }) => step('one', breakable, null).output);
  isBroken = true;
  const run = await client.start(fragile);
  await expect(run.result()).rejects.toThrow(`run ${run.id} failed at step one: out of order`);
  isBroken = false;
  expect(await run.retry()).toMatchObject({ id: run.id, state: 'running', tries: 2 });
  expect(await run.result()).toBe('works');
  const waiting = defineWorkflow({ name: 'waiting' }, ({ step }) => {
    step('wait', wait, null);
  });
  const other = await client.start(waiting, null, { priority: 5 });
  await expect(other.result({ timeout: 1 })).rejects.toThrow(`run ${other.id} is running after 1 ms`);
  expect(await client.run(other.id).cancel()).toMatchObject({ id: other.id, ending: 'cancelled', priority: 5 });
  await expect(other.result()).rejects.toThrow(`run ${other.id} was cancelled`);
});

test.each([
  ['a cycle', { steps: { a: { type: 't', after: ['b'] }, b: { type: 't', after: ['a'] } } }, 'a → b → a'],
  ['an unknown step', { steps: { a: { type: 't', after: ['c'] } } }, 'steps.a.after[0]: there is no step "c"'],
  [
    'a wrong reference',
    { steps: { a: { type: 't', input: { x: { $: 'b.output' } } } } },
    'steps.a.input.x: "b.output" refers to an unknown step "b"',
  ],
  [
    'two kinds',
    { steps: { a: { type: 't', workflow: 'w' } } },
    'expected exactly one of type, workflow and first, got 2',
  ],
])('a definition with %s is refused with its place', async (_what, definition, message) => {
  await expect(call('PUT', '/workflows/wrong', definition)).rejects.toThrow(message);
});
