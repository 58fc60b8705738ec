/** Lost, repeated and late frames between workers and their servers change nothing of what comes out. */
import { newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { type FrameProxy, startFrameProxy } from './support/frame-proxy.js';
import { createProcesses, type Processes, until } from './support/processes.js';

const JOBS = 300;
const BATCH = 20;
/** How many connections have faults before the network works again. */
const BAD_CONNECTIONS = 6;
/** Long enough that no worker is declared dead between two connections: this is about frames. */
const LEASE = '20s';

let database: TestDatabase;
let processes: Processes;
let proxies: FrameProxy[];

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.error(processes.log());
  await processes.end();
  await Promise.all(proxies.map((proxy) => proxy.close()));
});

it.each([1, 2, 3])(
  'J2, V1: every job runs once and its result is its own, with the bad network of seed %i',
  {
    timeout: 90_000,
  },
  async (seed) => {
    const queue = `seed-${seed}`;
    processes = createProcesses();
    proxies = await Promise.all([startFrameProxy(seed), startFrameProxy(seed + 1000)]);
    const servers = [];
    for (const proxy of proxies) {
      // known to workers by the address of its proxy alone
      const server = await processes.startServer(database.url, {
        flags: ['--public-url', proxy.url, '--lease', LEASE],
      });
      proxy.target = server.url;
      servers.push(server);
    }
    for (const [index, proxy] of proxies.entries()) processes.startWorker(`worker-${index}`, [proxy.url]);

    const client = createClient({ url: servers.map(({ url }) => url) });
    const numbers = new Map<string, number>();
    const bad = () => proxies.reduce((sum, { counts }) => sum + counts.connections, 0);
    for (let added = 0; added < JOBS || bad() < BAD_CONNECTIONS; added += BATCH) {
      const jobs = Array.from({ length: BATCH }, (_, index) => ({
        ...{ job: 'work', payload: { ms: index % 4 === 0 ? 15 : 0, number: added + index } },
        options: { id: newId(), queue },
      }));
      for (const { options, payload } of jobs) numbers.set(options.id, payload.number);
      await client.enqueueMany(jobs);
      await until('the jobs are half done', async () => (await left(queue)) < JOBS / 2 || bad() >= BAD_CONNECTIONS);
    }
    for (const proxy of proxies) proxy.heal();
    await until('no job is left', async () => (await left(queue)) === 0);
    await client.close();

    for (const { counts } of proxies) expect(counts.lost + counts.twice + counts.late).toBeGreaterThan(0);
    const { rows } = await database.pool.query<{ id: string; state: string; attempt: number; result: number }>(
      'select id, state, attempt, result from drover.job_history where queue = $1',
      [queue],
    );
    expect(new Map(rows.map(({ id, result }) => [id, result]))).toEqual(numbers);
    expect(rows.filter(({ state, attempt }) => state !== 'succeeded' || attempt !== 1)).toEqual([]);
    const runs = processes.executions().map(({ id }) => id);
    expect(runs.length).toBe(new Set(runs).size);
    expect(runs.length).toBe(numbers.size);
  },
);

async function left(queue: string): Promise<number> {
  const { rows } = await database.pool.query<{ count: number }>(
    'select count(*)::int from drover.job where queue = $1',
    [queue],
  );
  return rows[0]?.count ?? 0;
}
