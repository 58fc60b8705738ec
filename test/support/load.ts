/**
 * Load that does not mind what is killed around it: a producer that keeps adding jobs and remembers which of
 * them were acknowledged, and the check that each of those was finished exactly once.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@drover/sdk';
import type pg from 'pg';
import { until } from './until.js';

/** Jobs of one request. */
export const BATCH = 40;
const PAUSE_MS = 10;
const WORK_MS = 3;

export type Load = {
  /** Jobs acknowledged so far. */
  readonly acknowledged: number;
  /** Resolves when this many more have been acknowledged. */
  more(count: number): Promise<void>;
  /** Ends the production and gives the acknowledged ids. */
  stop(): Promise<string[]>;
};

/** Jobs of a few milliseconds in this queue. */
export function startLoad(client: Client, queue: string): Load {
  const ids: string[] = [];
  let stopped = false;

  async function produce(): Promise<void> {
    while (!stopped) {
      const jobs = Array.from({ length: BATCH }, () => ({ job: 'work', payload: { ms: WORK_MS }, options: { queue } }));
      // without an answer nobody knows whether the jobs exist, so nothing is promised about them
      const handles = await client.enqueueMany(jobs).catch(() => []);
      ids.push(...handles.map((handle) => handle.id));
      await delay(PAUSE_MS);
    }
  }
  const production = produce();

  return {
    get acknowledged() {
      return ids.length;
    },
    async more(count) {
      const goal = ids.length + count;
      await until(`${count} more jobs are acknowledged`, () => ids.length >= goal, { withinMs: 60_000 });
    },
    async stop() {
      stopped = true;
      await production;
      return ids;
    },
  };
}

export type Finished = { id: string; state: string; attempt: number; lost: number };

/** Waits until nothing is left to do and gives the jobs of the queue from the history. */
export async function allFinished(pool: pg.Pool, queue: string): Promise<Finished[]> {
  const left = async () => (await pool.query('select from drover.job where queue = $1 limit 1', [queue])).rows.length;
  await until(`no job is left in queue ${queue}`, async () => (await left()) === 0, { withinMs: 90_000 });
  const { rows } = await pool.query<Finished>(
    'select id, state, attempt, lost_attempts as lost from drover.job_history where queue = $1',
    [queue],
  );
  return rows;
}

/** What is wrong: acknowledged jobs that are missing, finished twice, or not succeeded. */
export function faults(acknowledged: readonly string[], finished: readonly Finished[]): string[] {
  const times = new Map<string, number>();
  for (const { id } of finished) times.set(id, (times.get(id) ?? 0) + 1);
  return [
    ...acknowledged.filter((id) => !times.has(id)).map((id) => `${id} is lost`),
    ...[...times].filter(([, count]) => count > 1).map(([id, count]) => `${id} is there ${count} times`),
    ...finished.filter(({ state }) => state !== 'succeeded').map(({ id, state }) => `${id} has ${state}`),
  ];
}
