/**
 * new → ready or running, for one job that is surely new, brings no options and whose lane is known, as most that come alone
 * do: it costs PostgreSQL some fifth less than the function of enqueue.ts. It means the same, but for a job that exists, finished
 * or not: then nothing is added, and the error is a unique violation.
 *
 * The history is looked at after the insert, in a statement of its own within the function, which has a later snapshot: see
 * decision 0004. A job whose id was made in the present era cannot be there, and only the era is looked at, which costs less
 * than half of that: see decision 0019. It too happens after the insert, as PostgreSQL comes to what is returned only then.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { RowToInsert } from './enqueue.js';

const READY = 'insert into drover.job (id, queue, type, payload) values ($1, $2, $3, $4)';
const GRANTED = `insert into drover.job (id, queue, type, payload, session_id, state, started_at, fence, attempt)
values ($1, $2, $3, $4, $6, 'running', now(), 1, 1)`;
const NOT_FINISHED = 'drover.refuse_finished(id, $5)';
/**
 * An error unless the era is the one of the fifth parameter. There is no other way to an error in an expression, without a
 * function of our own, than a value that is none.
 */
export const SAME_ERA =
  "case when pg_sequence_last_value('drover.era') = $5::bigint then null else ('another era than ' || $5)::date end";
/** invalid_datetime_format */
export const ERA_IS_OVER = '22007';

const statements = {
  ready: sql('insert_ready_job')`${READY} returning ${NOT_FINISHED}`,
  granted: sql('insert_granted_job')`${GRANTED} returning ${NOT_FINISHED}`,
  readyInEra: sql('insert_ready_job_in_era')`${READY} returning ${SAME_ERA}`,
  grantedInEra: sql('insert_granted_job_in_era')`${GRANTED} returning ${SAME_ERA}`,
};

/** No job with this id can have finished before `historyFrom`. */
export function insertOne(db: Runner, row: RowToInsert, historyFrom: string): Promise<unknown> {
  return insert(db, row, historyFrom, statements.ready, statements.granted);
}

/** The id of the job was made in this era and has not been sent to PostgreSQL before. */
export function insertOneInEra(db: Runner, row: RowToInsert, era: number): Promise<unknown> {
  return insert(db, row, String(era), statements.readyInEra, statements.grantedInEra);
}

function insert(
  db: Runner,
  { job, payloadText, sessionId }: RowToInsert,
  condition: string,
  ready: typeof statements.ready,
  granted: typeof statements.granted,
): Promise<unknown> {
  const values = [job.id, job.queue ?? DEFAULT_QUEUE, job.type, payloadText, condition];
  return sessionId === undefined ? db.runTexts(ready, values) : db.runTexts(granted, [...values, sessionId]);
}
