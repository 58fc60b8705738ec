/**
 * Load that tolerates faults: a producer that keeps adding jobs and remembers which were acknowledged, and the check
 * that each of those finished exactly once.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@drover/sdk';
import type pg from 'pg';
import { until } from './until.js';

/** Jobs per request. */
export const BATCH = 40;
const PAUSE_MS = 10;
const WORK_MS = 3;

export type Load = {
  /** Jobs acknowledged so far. */
  readonly acknowledged: number;
  /** Resolves when this many more have been acknowledged. */
  more(count: number): Promise<void>;
  /** Stops the producer and returns the acknowledged ids. */
  stop(): Promise<string[]>;
};

/** Jobs of a few milliseconds in this queue. */
export function startLoad(client: Client, queue: string): Load {
  const ids: string[] = [];
  let stopped = false;

  async function produce(): Promise<void> {
    while (!stopped) {
      const jobs = Array.from({ length: BATCH }, () => ({ job: 'work', payload: { ms: WORK_MS }, options: { queue } }));
      // without an answer it is unknown whether the jobs exist, so they are not checked
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

/** Waits until no job is left and returns the jobs of the queue from the history. */
export async function allFinished(pool: pg.Pool, queue: string): Promise<Finished[]> {
  const left = async () => (await pool.query('select from drover.job where queue = $1 limit 1', [queue])).rows.length;
  await until(`no job is left in queue ${queue}`, async () => (await left()) === 0, { withinMs: 90_000 });
  const { rows } = await pool.query<Finished>(
    'select id, state, attempt, lost_attempts as lost from drover.job_history where queue = $1',
    [queue],
  );
  return rows;
}

/** The violations: acknowledged jobs that are missing, finished twice, or not succeeded. */
export function faults(acknowledged: readonly string[], finished: readonly Finished[]): string[] {
  const times = new Map<string, number>();
  for (const { id } of finished) times.set(id, (times.get(id) ?? 0) + 1);
  return [
    ...acknowledged.filter((id) => !times.has(id)).map((id) => `${id} is lost`),
    ...[...times].filter(([, count]) => count > 1).map(([id, count]) => `${id} is there ${count} times`),
    ...finished.filter(({ state }) => state !== 'succeeded').map(({ id, state }) => `${id} has ${state}`),
  ];
}
