/**
 * new → ready or running, for many jobs that are surely new and bring no options: by COPY, which costs PostgreSQL
 * less than the function of enqueue.ts. It means the same, but for a job that exists, finished or not: then nothing is added,
 * and the error is a unique violation.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import pg from 'pg';
import { nameArray } from '../db/array-text.js';
import { copyJson } from '../db/copy-in.js';
import type { Runner } from '../db/database.js';
import { msOfId } from '../id-time.js';
import type { RowToInsert } from './enqueue.js';
import type { IdRange } from './id-range.js';

/** Fewer are not worth it. */
const MIN_JOBS = 16;
/** Over how long the ids may have been made: whatever has finished with an id of that time is looked at. */
const MAX_SPAN_MS = 100;

const COLUMNS = 'id, queue, type, payload';
/** With those that differ when a job is given to a worker at once. */
const GRANT_COLUMNS = `${COLUMNS}, state, session_id, started_at, fence, attempt`;
const NOT_GRANTED = 'ready\t\\N\t\\N\t0\t0';

export function isWorthCopying(jobs: number, { oldest, youngest }: IdRange): boolean {
  return jobs >= MIN_JOBS && msOfId(youngest) - msOfId(oldest) <= MAX_SPAN_MS;
}

export async function copyJobs(db: Runner, rows: readonly RowToInsert[], range: IdRange): Promise<void> {
  const areGranted = rows.some(({ sessionId }) => sessionId);
  /** As the columns of a row; names hold nothing that needs an escape. */
  const lanes = new Set<string>();
  let data = '';
  for (const { job, payloadText, sessionId } of rows) {
    const lane = `${job.queue ?? DEFAULT_QUEUE}\t${job.type}`;
    lanes.add(lane);
    data += `${job.id}\t${lane}\t${copyJson(payloadText)}`;
    if (areGranted) data += `\t${sessionId ? `running\t${sessionId}\tnow\t1\t1` : NOT_GRANTED}`;
    data += '\n';
  }
  const pairs = [...lanes].map((lane) => lane.split('\t'));
  const queues = nameArray(pairs.map(([queue]) => queue));
  const types = nameArray(pairs.map(([, type]) => type));
  const check = [range.oldest, range.youngest, range.historyFrom, queues, types];
  const text = `copy drover.job (${areGranted ? GRANT_COLUMNS : COLUMNS}) from stdin;
    select drover.check_copied_jobs(${check.map((value) => pg.escapeLiteral(value)).join(', ')})`;
  await db.copyIn(text, Buffer.from(data));
}
