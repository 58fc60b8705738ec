/** Pauses by a user while everything runs: of a worker, a queue, a type and the cluster. */
import type { Client, PauseTarget } from '@drover/sdk';
import { beforeAll, describe, expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const stage = createStage();
let servers: [ServerProcess, ServerProcess];
let client: Client;

beforeAll(async () => {
  servers = await Promise.all([stage.startServer(), stage.startServer()]);
  client = stage.client(servers[0].url);
});

const starts = (id: string) => stage.witness.events({ id, event: 'start' });
const hasStarted = (id: string) => until(`job ${id} has started`, () => starts(id)[0]);
const stateOf = async (id: string) => (await client.job(id).get()).state;
const workerNamed = async (name: string) => (await client.workers()).find((worker) => worker.name === name);

describe('P5: a paused worker', () => {
  test('P3: finishes what it runs, gives back what it has not started, and gets more only when it is resumed', async () => {
    const queue = 'worker';
    const url = servers[1].url;
    const worker = await stage.startWorker({ name: 'paused', url, slots: 1, queues: [queue], prefetch: 2 });
    const jobs = Array.from({ length: 3 }, () => ({ job: 'hold', payload: { gate: queue }, options: { queue } }));
    const [running, ...waiting] = (await client.enqueueMany(jobs)).map(({ id }) => id) as [string, string, string];
    await hasStarted(running);
    await until('it has the others, too', async () => (await workerNamed('paused'))?.running === 3);

    const id = (await workerNamed('paused'))?.id ?? '';
    await client.pause({ worker: id }, { note: 'its disk is slow' });
    await until('it has given them back', async () =>
      (await Promise.all(waiting.map(stateOf))).every((state) => state === 'ready'),
    );
    expect(await workerNamed('paused')).toMatchObject({ state: 'paused', paused: true });
    expect(await client.pauses()).toMatchObject([{ scope: 'worker', name: id, note: 'its disk is slow' }]);
    worker.open(queue);
    expect(await client.job(running).result({ timeout: '20s' })).toBe('let go');
    expect(stage.witness.events({ id: running }).map(({ event }) => event)).toEqual(['start', 'end']);

    // others take over, and nothing is counted against the jobs
    const other = await stage.startWorker({ name: 'free', url, slots: 1, queues: [queue] });
    other.open(queue);
    await Promise.all(waiting.map((job) => client.job(job).result({ timeout: '20s' })));
    for (const job of waiting) expect(starts(job)).toMatchObject([{ worker: 'free', attempt: 1 }]);
    expect(await other.stop()).toBe(0);

    const next = await client.enqueue('sum', { a: 1, b: 1 }, { queue });
    expect(await stateOf(next.id)).toBe('ready');
    await client.resume({ worker: id });
    await next.result({ timeout: '20s' });
    expect(starts(next.id)).toMatchObject([{ worker: 'paused', pid: worker.pid }]);
  });
});

describe('P5: while it is paused, no job starts', () => {
  test.each<[string, PauseTarget]>([
    ['a queue', { queue: 'scoped' }],
    ['a type', { type: 'sum' }],
    ['the cluster', { cluster: true }],
  ])('of %s, and running jobs continue', async (_, target) => {
    const queue = 'scoped';
    const name = `of ${Object.keys(target)[0]}`.replace(' ', '-');
    const worker = await stage.startWorker({ name, url: servers[1].url, slots: 4, queues: [queue] });
    const running = await client.enqueue('hold', { gate: name }, { queue });
    await hasStarted(running.id);
    await client.pause(target);
    const waiting = await client.enqueue('sum', { a: 1, b: 2 }, { queue });
    worker.open(name);
    expect(await running.result({ timeout: '20s' })).toBe('let go');
    expect(await stateOf(waiting.id)).toBe('ready');
    expect(starts(waiting.id)).toEqual([]);

    await client.resume(target);
    expect(await waiting.result({ timeout: '20s' })).toEqual({ sum: 3 });
    expect(await worker.stop()).toBe(0);
  });
});

test('nothing of this made an illegal move', () => {
  expect(stage.illegalMoves()).toEqual([]);
});
