/**
 * new → ready or running, for one job that is surely new and brings no options, as most that come alone do: it costs PostgreSQL
 * an eighth less than the function of enqueue.ts. It means the same, but for a job that exists, finished or not: then nothing is
 * added, and the error is a unique violation.
 *
 * The history is looked at after the insert, in a statement of its own within the function, which has a later snapshot: see
 * decision 0004.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { RowToInsert } from './enqueue.js';
import type { IdRange } from './id-range.js';

const insert = sql('insert_job')`
insert into drover.job (id, queue, type, payload, session_id, state, started_at, fence, attempt)
select $1, $2, $3, $4, given.session_id,
  case when given.session_id is null then 'ready' else 'running' end::drover.job_state,
  case when given.session_id is not null then now() end, given.fence, given.fence
from (select $5::uuid as session_id, case when $5 is null then 0 else 1 end as fence) given
returning drover.check_copied_jobs(id, id, $6, array[queue], array[type])`;

export async function insertOne(
  db: Runner,
  { job, payloadText, sessionId }: RowToInsert,
  { historyFrom }: IdRange,
): Promise<void> {
  const { id, queue = DEFAULT_QUEUE, type } = job;
  await db.runTexts(insert, [id, queue, type, payloadText, sessionId, historyFrom]);
}
