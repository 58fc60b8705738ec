/** Who gets a job and how many at once, and what the system knows of its workers. */
import { type Client, defineJob } from '@drover/sdk';
import { beforeAll, describe, expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import type { WorkerProcess } from '../support/start-worker.js';
import { until } from '../support/until.js';

const hold = defineJob<{ gate: string }>({ type: 'hold' });

const stage = createStage();
let server: ServerProcess;
let client: Client;

beforeAll(async () => {
  server = await stage.startServer();
  client = stage.client(server.url);
});

/** Adds holding jobs and gives, once they run, how many each worker was given. */
async function share(queue: string, gate: string, count: number): Promise<Record<string, number>> {
  const jobs = Array.from({ length: count }, () => ({ job: hold, payload: { gate }, options: { queue } }));
  const ids = new Set((await client.enqueueMany(jobs)).map((handle) => handle.id));
  const started = await until('all of them run', () => {
    const events = stage.witness.events({ queue, event: 'start' }).filter(({ id }) => ids.has(id));
    return events.length === count && events;
  });
  const counts: Record<string, number> = {};
  for (const { worker } of started) counts[worker] = (counts[worker] ?? 0) + 1;
  return counts;
}

async function unfinished(queue: string): Promise<number> {
  const { rows } = await stage.pool.query('select count(*)::int as count from drover.job where queue = $1', [queue]);
  return rows[0].count;
}

describe('D1: a job goes to the suitable worker with the most free capacity', () => {
  let large: WorkerProcess;
  let little: WorkerProcess;
  beforeAll(async () => {
    const common = { url: server.url, queues: ['balance'], prefetch: 0 };
    [large, little] = await Promise.all([
      stage.startWorker({ ...common, name: 'large', slots: 8 }),
      stage.startWorker({ ...common, name: 'little', slots: 2 }),
    ]);
  });

  test('first to the worker with more free slots, then to both alike, then to none', async () => {
    expect(await share('balance', 'balance', 6)).toEqual({ large: 6 });
    expect(await share('balance', 'balance', 4)).toEqual({ large: 2, little: 2 });
    const late = await client.enqueue(hold, { gate: 'balance' }, { queue: 'balance' });
    expect((await late.get()).state).toBe('ready');
    expect(stage.witness.events({ id: late.id })).toEqual([]);
    for (const worker of [large, little]) worker.open('balance');
    await late.result({ timeout: '20s' });
    await until('all are done', async () => (await unfinished('balance')) === 0);
  });

  test('also when the jobs were waiting before there was a worker', async () => {
    const jobs = Array.from({ length: 5 }, () => ({
      job: hold,
      payload: { gate: 'later' },
      options: { queue: 'later' },
    }));
    await client.enqueueMany(jobs);
    const worker = await stage.startWorker({
      name: 'latecomer',
      url: server.url,
      queues: ['later'],
      slots: 3,
      prefetch: 0,
    });
    await until('three run', () => stage.witness.events({ queue: 'later', event: 'start' }).length === 3);
    expect(await unfinished('later')).toBe(5);
    worker.open('later');
    await until('all are done', async () => (await unfinished('later')) === 0);
  });

  test('only to those who offer its type and its queue', async () => {
    const common = { url: server.url, slots: 5 };
    await Promise.all([
      stage.startWorker({ ...common, name: 'adds', queues: ['offers'], types: ['sum'] }),
      stage.startWorker({ ...common, name: 'works', queues: ['offers'], types: ['work'] }),
      stage.startWorker({ ...common, name: 'adds-elsewhere', queues: ['elsewhere'], types: ['sum'] }),
    ]);
    const jobs = Array.from({ length: 20 }, (_, index) => [
      { job: 'sum', payload: { a: index, b: 1 }, options: { queue: 'offers' } },
      { job: 'work', payload: { ms: 1 }, options: { queue: 'offers' } },
      { job: 'sum', payload: { a: index, b: 1 }, options: { queue: 'elsewhere' } },
    ]).flat();
    const unwanted = await client.enqueue('fail', { times: 0 }, { queue: 'offers' });
    const handles = await client.enqueueMany(jobs);
    await Promise.all(handles.map((handle) => handle.result({ timeout: '20s' })));
    for (const { worker, type, queue } of [
      { worker: 'adds', type: 'sum', queue: 'offers' },
      { worker: 'works', type: 'work', queue: 'offers' },
      { worker: 'adds-elsewhere', type: 'sum', queue: 'elsewhere' },
    ]) {
      const all = stage.witness.events({ worker, event: 'start' });
      expect(all).toHaveLength(20);
      expect(all.every((event) => event.type === type && event.queue === queue)).toBe(true);
    }
    expect((await unwanted.get()).state).toBe('ready');
    await unwanted.cancel();
  });
});

test('V4, H4: a worker never runs more at once than its slots', async () => {
  const [narrow, wide] = [
    { name: 'narrow', slots: 3 },
    { name: 'wide', slots: 7 },
  ] as const;
  for (const { name, slots } of [narrow, wide]) {
    await stage.startWorker({ name, url: server.url, slots, queues: ['slots'], types: ['work'] });
  }
  const jobs = Array.from({ length: 300 }, (_, index) => ({
    job: 'work',
    payload: { ms: index % 7 },
    options: { queue: 'slots' },
  }));
  const handles = await client.enqueueMany(jobs);
  await until('all are done', async () => (await unfinished('slots')) === 0);
  expect(stage.witness.events({ queue: 'slots', event: 'end' })).toHaveLength(handles.length);
  for (const { name, slots } of [narrow, wide]) expect(stage.witness.mostAtOnce(name)).toBe(slots);
});

describe('D2, D7: the system knows', () => {
  test('its workers with their jobs and capacity, and its servers', async () => {
    const before = await until('the jobs so far are forgotten', async () => {
      const stats = await client.stats();
      return stats.capacity.free === stats.capacity.total && stats.capacity;
    });
    const url = server.url;
    const worker = await stage.startWorker({
      name: 'known',
      url,
      slots: 6,
      queues: ['known'],
      types: ['sum', 'hold'],
      prefetch: 0,
    });
    const idle = await until('it is listed as waiting', async () => {
      const listed = (await client.workers()).find(({ name }) => name === 'known');
      return listed?.state === 'waiting' && listed;
    });
    expect(idle).toMatchObject({
      pid: worker.pid,
      types: ['sum', 'hold'],
      queues: ['known'],
      slots: 6,
      running: 0,
      missedBeats: 0,
    });
    await share('known', 'known', 4);
    const active = await client.list({ state: 'running', queue: 'known' });
    expect(active.items.map((job) => job.worker)).toEqual(Array(4).fill('known'));
    const busy = await until('its jobs are counted', async () => {
      const listed = (await client.workers()).find(({ name }) => name === 'known');
      return listed?.running === 4 && listed;
    });
    const servers = await client.servers();
    expect(busy).toMatchObject({ state: 'working', serverId: servers[0]?.id });
    expect(Date.now() - Date.parse(busy.lastBeatAt)).toBeLessThan(10_000);
    expect(servers).toMatchObject([{ address: server.url, pid: server.pid, state: 'working' }]);

    const stats = await until('the statistics have it', async () => {
      const now = await client.stats();
      return now.capacity.free === before.free + 2 && now.counts.running === 4 && now;
    });
    expect(stats.capacity).toEqual({
      total: before.total + 6,
      free: before.free + 2,
      workers: before.workers + 1,
      servers: 1,
    });
    const queue = (await client.queues()).find(({ name }) => name === 'known');
    expect(queue).toMatchObject({ counts: { running: 4 }, types: ['hold'] });
    worker.open('known');
    await until('all are done', async () => (await unfinished('known')) === 0);
  });

  test('P3: of a worker that drains, that has resigned, and that has died', async () => {
    const stateOf = (name: string) => async (state: string) => {
      const listed = (await client.workers()).find((worker) => worker.name === name);
      return listed?.state === state && listed;
    };
    const leaver = await stage.startWorker({ name: 'leaver', url: server.url, slots: 2, queues: ['leaving'] });
    await share('leaving', 'leaving', 1);
    leaver.kill('SIGTERM');
    await until('it drains', () => stateOf('leaver')('draining'));
    leaver.open('leaving');
    expect(await leaver.exited).toBe(0);
    const resigned = await until('it has resigned', () => stateOf('leaver')('resigned'));
    expect(resigned).toMatchObject({ running: 0, serverId: null });

    const victim = await stage.startWorker({ name: 'victim', url: server.url, slots: 2, queues: ['dying'] });
    await victim.destroy();
    const dead = await until('it is dead', () => stateOf('victim')('dead'));
    expect(dead.lastError).toContain('connection was lost');
  });
});

test('nothing of this made an illegal move', () => {
  expect(stage.illegalMoves()).toEqual([]);
});
