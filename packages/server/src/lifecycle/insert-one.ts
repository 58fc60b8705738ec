/**
 * new → ready or running, for one job that is surely new, brings no options and whose lane is known, as most that come alone
 * do: it costs PostgreSQL some fifth less than the function of enqueue.ts. It means the same, but for a job that exists, finished
 * or not: then nothing is added, and the error is a unique violation.
 *
 * The history is looked at after the insert, in a statement of its own within the function, which has a later snapshot: see
 * decision 0004.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { RowToInsert } from './enqueue.js';
import type { IdRange } from './id-range.js';

const insertReady = sql('insert_ready_job')`
insert into drover.job (id, queue, type, payload)
values ($1, $2, $3, $4)
returning drover.refuse_finished(id, $5)`;

const insertGranted = sql('insert_granted_job')`
insert into drover.job (id, queue, type, payload, session_id, state, started_at, fence, attempt)
values ($1, $2, $3, $4, $6, 'running', now(), 1, 1)
returning drover.refuse_finished(id, $5)`;

export function insertOne(
  db: Runner,
  { job, payloadText, sessionId }: RowToInsert,
  { historyFrom }: IdRange,
): Promise<unknown> {
  const values = [job.id, job.queue ?? DEFAULT_QUEUE, job.type, payloadText, historyFrom];
  return sessionId === undefined
    ? db.runTexts(insertReady, values)
    : db.runTexts(insertGranted, [...values, sessionId]);
}
