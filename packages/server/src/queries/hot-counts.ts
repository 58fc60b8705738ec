/**
 * The number of unfinished jobs by queue and state. They are counted on demand: a stored counter would be a row that
 * every insert, claim and finish waits for. Counting reads the whole hot table (0.5 s for a million rows), hence the
 * bounded reader.
 */
import type { JobState } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { createBoundedReader } from './bounded-reader.js';

const countUnfinished = sql('count_unfinished')`
select queue, state, count(*)::int as jobs, min(run_at) as first_run_at, now() as counted_at
from drover.job
group by queue, state
union all
-- the moment of counting, also when there is nothing to count
select null, null, 0, null, now()`;

type CountRow = {
  queue: string | null;
  state: JobState | null;
  jobs: number;
  first_run_at: Date | null;
  counted_at: Date;
};

export type StateCounts = Partial<Record<JobState, number>>;
export type QueueCounts = { counts: StateCounts; oldestReadyAt: Date | null };

export type HotCounts = {
  countedAt: Date;
  total: StateCounts;
  queues: ReadonlyMap<string, QueueCounts>;
};

export function createHotCounts(db: Runner, now?: () => number): () => Promise<HotCounts> {
  return createBoundedReader({
    async read() {
      const value = toHotCounts(await db.run<CountRow>(countUnfinished));
      const rows = Object.values(value.total).reduce((sum, jobs) => sum + jobs, 0);
      return { value, rows };
    },
    ...(now && { now }),
  });
}

function toHotCounts(rows: CountRow[]): HotCounts {
  const total: StateCounts = {};
  const queues = new Map<string, QueueCounts>();
  for (const { queue, state, jobs, first_run_at } of rows) {
    if (queue === null || state === null) continue;
    total[state] = (total[state] ?? 0) + jobs;
    const entry = queues.get(queue) ?? { counts: {}, oldestReadyAt: null };
    entry.counts[state] = jobs;
    if (state === 'ready') entry.oldestReadyAt = first_run_at;
    queues.set(queue, entry);
  }
  return { countedAt: rows.at(-1)?.counted_at ?? new Date(0), total, queues };
}
