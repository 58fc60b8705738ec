/** What an operator sees of workers and does to them. */
import { type Client, createClient } from '@drover/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { register } from '../support/raw-worker.js';

const BEAT_MS = 200;

let bench: ApiBench;
let client: Client;
beforeAll(async () => {
  bench = await createApiBench({ beatMs: BEAT_MS, leaseMs: 20_000 });
  client = createClient({ url: bench.server.address });
});
afterAll(async () => {
  await client.close();
  await bench.close();
});

const workerOf = async (id: string) => (await client.workers()).find((worker) => worker.id === id);

test('a pause of a worker says who paused it and why, until it is resumed', async () => {
  const { worker, hello } = await register(bench.port);
  const { sessionId } = hello;
  await client.pause({ worker: sessionId }, { note: 'its disk is slow' });
  await worker.next('handBack');
  expect((await workerOf(sessionId))?.state).toBe('paused');
  const [pause, ...others] = await client.pauses();
  expect(others).toEqual([]);
  expect(pause).toMatchObject({ scope: 'worker', name: sessionId, note: 'its disk is slow' });
  expect(pause?.pausedBy).not.toBe('');
  // without a note it keeps the one it has
  await client.pause({ worker: sessionId });
  expect(await client.pauses()).toEqual([pause]);
  await client.resume({ worker: sessionId });
  expect(await client.pauses()).toEqual([]);
  expect((await workerOf(sessionId))?.state).toBe('waiting');
});

test('what a worker complains of is shown for as long as it does', async () => {
  const { worker, hello } = await register(bench.port);
  const beat = (number: number, more: object) => {
    worker.send({ kind: 'beat', beat: number, running: 0, received: 0, ...more });
    return worker.next('beat');
  };
  await beat(1, { trouble: 'the disk is full' });
  expect((await workerOf(hello.sessionId))?.lastError).toBe('the disk is full');
  await beat(2, {});
  expect((await workerOf(hello.sessionId))?.lastError).toBeNull();
  // what the database cannot store must not keep it from renewing leases
  await beat(3, { trouble: 'nul \u0000 and half a \ud800 pair' });
  expect((await workerOf(hello.sessionId))?.lastError).toBe('nul \ufffd and half a \ufffd pair');
  worker.terminate();
  await expect.poll(async () => (await workerOf(hello.sessionId))?.lastError).toContain('connection was lost');
  // it comes back and has recovered
  const again = await register(bench.port, { sessionId: hello.sessionId });
  again.worker.send({ kind: 'beat', beat: 1, running: 0, received: 0 });
  await again.worker.next('beat');
  expect((await workerOf(hello.sessionId))?.lastError).toBeNull();
});
