/**
 * new → ready or running, for a large batch without options: by COPY, which takes two thirds of the CPU that the
 * function in insert-jobs.ts takes. The effect is the same, except that a job that exists, finished or not, is an
 * error (unique_violation) and nothing is added.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import pg from 'pg';
import { msOfId } from '../base/id-time.js';
import { nameArray } from '../db/array-text.js';
import { copyText } from '../db/copy-in.js';
import type { Runner } from '../db/database.js';
import type { IdRange } from '../new-jobs/id-range.js';
import type { RowToInsert } from '../new-jobs/job-to-insert.js';

/** Smaller batches gain nothing. */
const MIN_JOBS = 16;
/** Longest time span of the ids. All jobs that finished within the span of the ids are searched. */
const MAX_SPAN_MS = 100;

const COLUMNS = 'id, queue, type, payload';
/** With the columns that differ when a job is granted to a worker at once. */
const GRANT_COLUMNS = `${COLUMNS}, state, session_id, started_at, fence, attempt`;
const NOT_GRANTED = 'ready\t\\N\t\\N\t0\t0';

export function canCopy(rows: readonly RowToInsert[], range: IdRange | undefined): range is IdRange {
  return (
    rows.length >= MIN_JOBS &&
    range !== undefined &&
    msOfId(range.youngest) - msOfId(range.oldest) <= MAX_SPAN_MS &&
    rows.every(({ job }) => job.options === undefined)
  );
}

export async function copyJobs(db: Runner, rows: readonly RowToInsert[], range: IdRange): Promise<void> {
  const areGranted = rows.some(({ sessionId }) => sessionId);
  /** A lane as the columns of a row; names need no escapes. */
  const lanes = new Set<string>();
  let data = '';
  for (const { job, sessionId } of rows) {
    const lane = `${job.queue ?? DEFAULT_QUEUE}\t${job.type}`;
    lanes.add(lane);
    data += `${job.id}\t${lane}\t${copyText(job.payload)}`;
    if (areGranted) data += `\t${sessionId ? `running\t${sessionId}\tnow\t1\t1` : NOT_GRANTED}`;
    data += '\n';
  }
  const pairs = [...lanes].map((lane) => lane.split('\t'));
  const queues = nameArray(pairs.map(([queue]) => queue));
  const types = nameArray(pairs.map(([, type]) => type));
  const check = [range.oldest, range.youngest, range.historyFrom, queues, types];
  const text = `copy drover.job (${areGranted ? GRANT_COLUMNS : COLUMNS}) from stdin;
    select drover.finish_copy(${check.map((value) => pg.escapeLiteral(value)).join(', ')})`;
  await db.copyIn(text, Buffer.from(data));
}
