/** `drover node`: processes that are a server and a worker each, and together a cluster. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createStage } from '../support/stage.js';
import type { NodeProcess } from '../support/start-node.js';
import { until } from '../support/until.js';

vi.setConfig({ testTimeout: 60_000 });
const SLOTS = '2';

const stage = createStage();
afterEach(async () => {
  expect(stage.illegalMoves()).toEqual([]);
  await stage.killAll();
});

const startNode = (name: string, queue: string) =>
  stage.startNode({ name, flags: { slots: SLOTS, queues: queue, prefetch: '0' } });
const addHolding = async (node: NodeProcess, queue: string, gate: string, count: number) => {
  const jobs = Array.from({ length: count }, () => ({ job: 'hold', payload: { gate }, options: { queue } }));
  return (await stage.client(node.url).enqueueMany(jobs)).map(({ id }) => id);
};
/** How many jobs of the queue each worker has started. */
function startsIn(queue: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { worker } of stage.witness.events({ queue, event: 'start' })) counts[worker] = (counts[worker] ?? 0) + 1;
  return counts;
}
const haveStarted = (queue: string, counts: Record<string, number>) =>
  until(`the nodes have started ${JSON.stringify(counts)}`, () => {
    const started = startsIn(queue);
    return Object.entries(counts).every(([name, count]) => started[name] === count);
  });

test('P1, P4: one node takes jobs in, gives them out and runs them, also while many more are being added', async () => {
  const node = await startNode('alone', 'alone');
  const client = stage.client(node.url);
  expect(await client.servers()).toMatchObject([{ address: node.url, pid: node.pid }]);
  expect(await client.workers()).toMatchObject([{ name: 'alone', pid: node.pid }]);

  let isAdding = true;
  let added = 0;
  const adding = (async () => {
    while (isAdding) added += (await client.enqueueMany('nobody-runs-this', Array(2000).fill(null))).length;
  })();
  await until('adding has begun', () => added > 0);
  for (let number = 0; number < 20; number++) {
    const handle = await client.enqueue('sum', { a: number, b: 1 }, { queue: 'alone' });
    expect(await handle.result({ timeout: '20s' })).toEqual({ sum: number + 1 });
  }
  isAdding = false;
  await adding;
  // and the other way round: with every slot taken, what is added is acknowledged
  const ids = await addHolding(node, 'alone', 'full', 10);
  await until('both slots are taken', () => startsIn('alone').alone === 22);
  expect(await Promise.all(ids.map(async (id) => (await client.job(id).get()).state))).toContain('ready');
  node.open('full');
  await Promise.all(ids.map((id) => client.job(id).result({ timeout: '20s' })));
});

test('P1, P2, H1: equal nodes share the work, and share it again when one joins, leaves or fails', async () => {
  const queue = 'shared';
  const [first, second] = await Promise.all([startNode('first', queue), startNode('second', queue)]);
  const ids = await addHolding(first, queue, 'shared', 12);
  await haveStarted(queue, { first: 2, second: 2 });

  const third = await startNode('third', queue);
  await haveStarted(queue, { third: 2 });

  // one leaves: it finishes what it has begun, and no more
  second.kill('SIGTERM');
  await until('it drains', async () =>
    (await stage.client(first.url).workers()).some(({ name, state }) => name === 'second' && state === 'draining'),
  );
  second.open('shared');
  expect(await second.exited).toBe(0);

  // one fails: what it was running runs again, on those that are left
  const lost = stage.witness.events({ queue, event: 'start', worker: 'third' }).map(({ id }) => id);
  await third.destroy();
  const client = stage.client(first.url);
  const fourth = await startNode('fourth', queue);
  for (const node of [first, fourth]) node.open('shared');
  await Promise.all(ids.map((id) => client.job(id).result({ timeout: '30s' })));
  const startsOf = (id: string) => stage.witness.events({ id, event: 'start' }).length;
  expect(ids.filter((id) => startsOf(id) !== (lost.includes(id) ? 2 : 1))).toEqual([]);
  expect(startsIn(queue)).toMatchObject({ second: 2, third: 2 });
  // nothing that had started was interrupted
  expect(stage.witness.events({ queue, event: 'aborted' })).toEqual([]);
});

describe('P5: a node', () => {
  test('is paused and resumed by its id; with --ignore-pause it keeps working', async () => {
    const flags = { slots: SLOTS, queues: 'paused', prefetch: '0' };
    const obedient = await stage.startNode({ name: 'obedient', flags });
    const client = stage.client(obedient.url);
    const idOf = async (name: string) => {
      const worker = (await client.workers()).find((listed) => listed.name === name);
      return worker?.id ?? '';
    };
    const [running = ''] = await addHolding(obedient, 'paused', 'running', 1);
    await haveStarted('paused', { obedient: 1 });
    await client.pause({ worker: await idOf('obedient') });
    await until('it is listed as paused', async () =>
      (await client.workers()).some(({ name, state }) => name === 'obedient' && state === 'paused'),
    );
    await client.pause({ queue: 'paused' });

    const headstrong = await stage.startNode({ name: 'headstrong', flags, switches: ['ignore-pause'] });
    await client.pause({ worker: await idOf('headstrong') });
    const ids = await addHolding(headstrong, 'paused', 'rest', 4);
    await haveStarted('paused', { headstrong: 2 });
    obedient.open('running');
    expect(await client.job(running).result({ timeout: '20s' })).toBe('let go');
    headstrong.open('rest');
    await Promise.all(ids.map((id) => client.job(id).result({ timeout: '20s' })));
    expect(startsIn('paused')).toEqual({ obedient: 1, headstrong: 4 });

    await headstrong.stop();
    await client.resume({ queue: 'paused' });
    await client.resume({ worker: await idOf('obedient') });
    const last = await client.enqueue('sum', { a: 1, b: 1 }, { queue: 'paused' });
    expect(await last.result({ timeout: '20s' })).toEqual({ sum: 2 });
    expect(startsIn('paused').obedient).toBe(2);
  });
});
