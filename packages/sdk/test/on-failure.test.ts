import { afterEach, beforeEach, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { encodeJob } from '../src/encode-job.js';
import { defineJob, type FailureContext, handle, type RunnableJob } from '../src/index.js';
import { createWorker, type Worker } from '../src/worker/index.js';
import { assignment, type PeerConnection, StreamPeer } from './support/stream-peer.js';

const error = { name: 'Error', message: 'card refused' };
const failed = { id: 'a', type: 'charge', queue: 'bank', attempt: 5, maxAttempts: 5, tags: ['vip'], occurrence: null };

let peer: StreamPeer;
let worker: Worker;
beforeEach(async () => {
  peer = await new StreamPeer().listen();
});
afterEach(async () => {
  peer.oblige();
  await worker.stop();
  await peer.close();
});

async function start(job: RunnableJob): Promise<{ connection: PeerConnection; types: string[] }> {
  worker = createWorker({ jobs: [job], url: peer.url, drainTimeout: 0 });
  const started = worker.start();
  const connection = await peer.connection();
  const { types } = await connection.welcome();
  await started;
  return { connection, types };
}

it('a function as onFailure is a job of its own, which each job names and the worker takes', async () => {
  const charge = defineJob({
    type: 'charge',
    payload: z.object({ order: z.string() }),
    run: () => {},
    onFailure: ({ job, error: reason, id, attempt }) => {
      expectTypeOf(job.payload.order).toEqualTypeOf<string>();
      return { order: job.payload.order, reason: reason.message, tags: job.tags, id, attempt };
    },
  });
  expect(JSON.parse(`{${(await encodeJob(charge, { order: '4711' }, undefined)).head}}`)).toEqual({
    type: 'charge',
    complete: true,
    onFailure: 'charge/on-failure',
  });
  const { connection, types } = await start(charge);
  expect(types).toEqual(['charge', 'charge/on-failure']);
  const follower = assignment('charge/on-failure', { job: { ...failed, payload: { order: '4711' }, error } });
  connection.assign(follower);
  const [outcome] = await connection.takeOutcomes(1);
  expect(outcome).toMatchObject({ id: follower.id, kind: 'succeeded' });
  expect(JSON.parse((outcome as { result: string }).result)).toEqual({
    ...{ order: '4711', reason: 'card refused', tags: ['vip'], id: follower.id, attempt: 1 },
  });
});

it('a shared definition names the job, and the worker adds the function', async () => {
  const shared = defineJob<{ order: string }>({ type: 'charge', onFailure: 'failures' });
  const onFailure = ({ job }: FailureContext<{ order: string }>) => job.payload.order;
  const { connection, types } = await start(handle(shared, () => {}, { onFailure }));
  expect(types).toEqual(['charge', 'failures']);
  connection.assign(assignment('failures', { job: { ...failed, payload: { order: '4711' }, error } }));
  expect(await connection.takeOutcomes(1)).toMatchObject([{ kind: 'succeeded', result: '"4711"' }]);
});
