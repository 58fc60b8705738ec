/** What the compiler infers and what it refuses; `npm run types` checks this file, vitest only that it loads. */
import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { Api } from '../src/client/api.js';
import {
  type CancelledJob,
  createClient,
  defineJob,
  defineSchedule,
  type EnqueuedJob,
  handle,
  type JobContext,
  type JobHandle,
  type JobWithAttempts,
  type ListedJob,
  snooze,
} from '../src/index.js';
import { enqueueManyWith, enqueueWith } from '../src/postgres/index.js';
import { createWorker } from '../src/worker/index.js';

const client = createClient();
const query = async () => {};

const greet = defineJob({
  type: 'greet',
  payload: z.object({ name: z.string() }),
  run: async ({ payload }) => ({ greeting: `Hello, ${payload.name}` }),
});
/** Its schemas transform: what goes in is not what comes out. */
const remind = defineJob({
  type: 'remind',
  payload: z.object({ at: z.string().transform((text) => new Date(text)) }),
  result: z.object({ sentAt: z.string().transform((text) => new Date(text)) }),
});
const declared = defineJob<{ to: string }, number>({ type: 'declared' });
const bare = defineJob({ type: 'bare' });

/** Compiled, never called: nothing here must reach a server. */
export async function inferred(): Promise<void> {
  const job = await client.enqueue(greet, { name: 'world' });
  expectTypeOf(job).toEqualTypeOf<EnqueuedJob<{ greeting: string }>>();
  expectTypeOf(await job.result({ timeout: '30s' })).toEqualTypeOf<{ greeting: string }>();
  expectTypeOf(await job.get()).toEqualTypeOf<JobWithAttempts>();
  expectTypeOf(await job.cancel()).toEqualTypeOf<CancelledJob>();
  expectTypeOf(client.job(remind, 'id')).toEqualTypeOf<JobHandle<{ sentAt: Date }>>();
  expectTypeOf(client.job('id')).toEqualTypeOf<JobHandle<unknown>>();
  expectTypeOf(await client.enqueueMany(declared, [{ to: 'a' }])).toEqualTypeOf<EnqueuedJob<number>[]>();
  expectTypeOf(await client.enqueue('by-name', { any: 'thing' })).toEqualTypeOf<EnqueuedJob<unknown>>();
  expectTypeOf((await client.list({ include: ['payload'] })).items).toEqualTypeOf<ListedJob[]>();
  await client.enqueue(bare);
  await client.enqueue(bare, { any: 'thing' }, { delay: '1m' });
  defineSchedule({ name: 'daily', cron: '@daily', job: greet, payload: { name: 'world' } });
}

/** Each line breaks a promise of the types, and must not compile. */
export async function refused(): Promise<void> {
  // @ts-expect-error a payload of the wrong type
  await client.enqueue(greet, { name: 5 });
  await client.enqueue(greet, {
    // @ts-expect-error reported at the field that is wrong
    name: 5,
  });
  // @ts-expect-error a payload with an unknown field
  await client.enqueue(greet, { name: 'world', nmae: 'world' });
  // @ts-expect-error no payload
  await client.enqueue(greet);
  // @ts-expect-error an unknown option
  await client.enqueue(greet, { name: 'world' }, { prioriti: 1 });
  await client.enqueueMany(greet, [
    // @ts-expect-error reported at the payload that is wrong
    { name: 5 },
  ]);
  await enqueueWith(query, greet, {
    // @ts-expect-error reported at the field that is wrong
    name: 5,
  });
  // @ts-expect-error a payload of the wrong type
  await enqueueManyWith(query, declared, [{ to: 5 }]);
  // @ts-expect-error a payload before the schema's transform
  await client.enqueue(remind, { at: new Date() });
  // @ts-expect-error a payload of the wrong type
  defineSchedule({ name: 'daily', cron: '@daily', job: greet, payload: { name: 5 } });
  // @ts-expect-error a definition without a handler
  createWorker({ jobs: [remind] });
  // @ts-expect-error nothing that defineJob has made
  await client.enqueue({ type: 'greet', payload: undefined, result: undefined }, { name: 'world' });
  handle(
    remind,
    // @ts-expect-error a result that does not fit its schema
    () => ({ sentAt: new Date() }),
  );
  defineJob({
    type: 'wide',
    result: z.object({ sent: z.boolean() }),
    // @ts-expect-error a result that is wider than its schema
    run: (): { sent: boolean | undefined } => ({ sent: undefined }),
  });
  // @ts-expect-error a module without a handler
  defineJob({ type: 'no-handler', module: import.meta.url });
}

/** Calls of the API are typed from the route table. */
export async function calls(api: Api): Promise<void> {
  expectTypeOf(await api.call('getJob', { params: { id: 'id' } })).toEqualTypeOf<JobWithAttempts>();
  expectTypeOf((await api.call('deleteSchedule', { params: { name: 'daily' } })).deleted).toEqualTypeOf<boolean>();
  await api.call('failJob', { params: { id: 'id' } });
  // @ts-expect-error a route that does not exist
  await api.call('getJobs', {});
  // @ts-expect-error a parameter that the path does not have
  await api.call('getJob', { params: { name: 'id' } });
  // @ts-expect-error no parameters
  await api.call('getJob', {});
  // @ts-expect-error a body of the wrong form
  await api.call('putSchedule', { params: { name: 'daily' }, body: { cron: 5 } });
  // @ts-expect-error a body for a route without one
  await api.call('cancelJob', { params: { id: 'id' }, body: {} });
}

describe('the types of a job', () => {
  it('are inferred from its schemas', () => {
    const ready = handle(remind, ({ payload }) => {
      expectTypeOf(payload).toEqualTypeOf<{ at: Date }>();
      return { sentAt: payload.at.toISOString() };
    });
    expectTypeOf(ready.run).parameter(0).toEqualTypeOf<JobContext<{ at: Date }>>();
    expectTypeOf(client.job(ready, 'id')).toEqualTypeOf<JobHandle<{ sentAt: Date }>>();
  });

  it('are inferred from run where there is no schema of the result', () => {
    const snoozing = defineJob({
      type: 'snoozing',
      run: async ({ attempt }) => (attempt === 1 ? snooze('1m') : { attempt }),
    });
    expectTypeOf(client.job(snoozing, 'id')).toEqualTypeOf<JobHandle<{ attempt: number }>>();
    const plain = defineJob({ type: 'plain', run: ({ payload }) => [payload] });
    expectTypeOf(client.job(plain, 'id')).toEqualTypeOf<JobHandle<unknown[]>>();
    const silent = defineJob({ type: 'silent', run: async () => {} });
    expectTypeOf(client.job(silent, 'id')).toEqualTypeOf<JobHandle<void>>();
  });

  it('are checked against run where there are schemas', () => {
    const both = defineJob({
      type: 'both',
      payload: z.object({ at: z.coerce.date<string>() }),
      result: z.object({ sentAt: z.coerce.date<string>() }),
      run: async ({ payload, signal }) => {
        expectTypeOf(payload).toEqualTypeOf<{ at: Date }>();
        signal.throwIfAborted();
        return { sentAt: payload.at.toISOString() };
      },
    });
    expectTypeOf(client.job(both, 'id')).toEqualTypeOf<JobHandle<{ sentAt: Date }>>();
  });

  it('may be declared by hand', () => {
    expectTypeOf(client.job(declared, 'id')).toEqualTypeOf<JobHandle<number>>();
    const running = defineJob<{ to: string }, number>({ type: 'running', run: ({ payload }) => payload.to.length });
    expectTypeOf(client.job(running, 'id')).toEqualTypeOf<JobHandle<number>>();
    createWorker({ jobs: [running, greet, handle(declared, ({ payload }) => payload.to.length)] });
  });
});
