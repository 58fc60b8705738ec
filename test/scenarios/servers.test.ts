/** Equal servers that come and go: how they are known, and how workers that know one of them find the others. */
import { expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

const stage = createStage();

test('V3, H2, D6: a worker that was given one address learns the others, and moves on when its server dies', async () => {
  const [first, second] = await Promise.all([stage.startServer(), stage.startServer()]);
  const client = stage.client(second.url);
  const serversAre = (expected: Record<string, string>) =>
    until(`the servers are ${JSON.stringify(expected)}`, async () => {
      const listed = (await client.servers()).map(({ address, state }) => [address, state]);
      return JSON.stringify(Object.fromEntries(listed.sort())) === JSON.stringify(sorted(expected)) && listed;
    });
  await serversAre({ [first.url]: 'working', [second.url]: 'working' });

  const worker = await stage.startWorker({ name: 'wanderer', url: first.url, slots: 2, queues: ['wander'] });
  const { id } = await client.enqueue('hold', { gate: 'wander' }, { queue: 'wander' });
  await until('its job runs', () => stage.witness.events({ id, event: 'start' })[0]);
  await first.destroy();
  const moved = await until('the other server serves it', async () => {
    const [server] = (await client.servers()).filter(({ address }) => address === second.url);
    return (await client.workers()).find(({ serverId, running }) => serverId === server?.id && running === 1);
  });
  expect(moved).toMatchObject({ name: 'wanderer', pid: worker.pid });
  await serversAre({ [first.url]: 'unresponsive', [second.url]: 'working' });
  worker.open('wander');
  expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
  expect(stage.witness.events({ id }).map(({ event }) => event)).toEqual(['start', 'end']);

  // one that leaves in order takes its registration with it
  const third = await stage.startServer();
  await serversAre({ [first.url]: 'unresponsive', [second.url]: 'working', [third.url]: 'working' });
  expect(await third.stop()).toBe(0);
  await serversAre({ [first.url]: 'unresponsive', [second.url]: 'working' });
  expect(stage.illegalMoves()).toEqual([]);
});

function sorted(record: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(record).sort());
}
