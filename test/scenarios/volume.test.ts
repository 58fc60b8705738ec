/** A hundred thousand jobs through two servers and four workers: none lost, none run or completed twice. */
import { beforeAll, expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const JOBS = 100_000;
const BATCH = 2000;
const SINGLES = 500;
const WORKERS = ['a', 'b', 'c', 'd'];
/** A multiple of what it takes, for machines that have other work to do. */
const LIMIT_MS = 240_000;

const stage = createStage();
let servers: [ServerProcess, ServerProcess];

beforeAll(async () => {
  // no worker may be declared dead on a machine this busy: then every second start would count as a fault
  const flags = { beat: '2s', lease: '30s', poll: '250ms', 'log-level': 'warn' };
  servers = await Promise.all([stage.startServer({ flags }), stage.startServer({ flags })]);
  const urls = servers.map(({ url }) => url) as [string, string];
  await Promise.all(
    WORKERS.map((name, index) =>
      stage.startWorker({ name, url: urls[index % 2] as string, slots: 20, types: ['count'] }),
    ),
  );
});

/** Half of the jobs, from one producer: most in batches, some one by one. Gives the acknowledged ids. */
async function produce(url: string, first: number): Promise<string[]> {
  const client = stage.client(url);
  const ids: string[] = [];
  for (let number = first; number < first + JOBS / 2 - SINGLES; number += BATCH) {
    const size = Math.min(BATCH, first + JOBS / 2 - SINGLES - number);
    const handles = await client.enqueueMany(
      'count',
      Array.from({ length: size }, (_, index) => ({ number: number + index })),
    );
    ids.push(...handles.map((handle) => handle.id));
  }
  const singles = Array.from({ length: SINGLES }, (_, index) =>
    client.enqueue('count', { number: first + JOBS / 2 - SINGLES + index }),
  );
  for (const handle of await Promise.all(singles)) ids.push(handle.id);
  return ids;
}

test(
  'V1, D6, D8: 100,000 jobs of two producers are each run once and completed once',
  async () => {
    const acknowledged = (await Promise.all([produce(servers[0].url, 0), produce(servers[1].url, JOBS / 2)])).flat();
    expect(new Set(acknowledged).size).toBe(JOBS);
    await until(
      'nothing is left to do',
      async () => (await stage.pool.query('select from drover.job limit 1')).rows.length === 0,
      { withinMs: LIMIT_MS },
    );

    const { rows } = await stage.pool.query<{ state: string; attempts: number; jobs: number; ids: number }>(
      `select state, max(attempt) as attempts, count(*)::int as jobs, count(distinct id)::int as ids
       from drover.job_history group by state`,
    );
    expect(rows).toEqual([{ state: 'succeeded', attempts: 1, jobs: JOBS, ids: JOBS }]);
    const { rows: numbers } = await stage.pool.query(
      `select count(distinct (result->>'number')::int)::int as count from drover.job_history
       where (result->>'number')::int = (payload->>'number')::int`,
    );
    expect(numbers[0].count).toBe(JOBS);

    const started = stage.witness.events({ event: 'start' });
    expect(started).toHaveLength(JOBS);
    const ran = new Set(started.map(({ id }) => id));
    expect(acknowledged.filter((id) => !ran.has(id))).toEqual([]);
    expect(new Set(started.map(({ worker }) => worker))).toEqual(new Set(WORKERS));
    expect(stage.illegalMoves()).toEqual([]);
  },
  LIMIT_MS,
);
