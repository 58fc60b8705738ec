/**
 * One job, finished or not. One statement reads both tables in one snapshot, so a job that is just finishing is found
 * in exactly one of them.
 *
 * The history has no unique key over all its days, so the id is looked up in each day's index. Days before the job
 * can have been created are skipped (see earliestFinish).
 */
import type { JobState } from '@drover/protocol';
import { earliestFinish } from '../base/id-time.js';
import { JsonText } from '../base/json-text.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { hiddenErrorText, hiddenJson } from './hidden.js';
import {
  FINISHED_COLUMNS,
  type JobRow,
  jobText,
  jobWithAttemptsText,
  SENT_COLUMNS,
  UNFINISHED_COLUMNS,
} from './job-row.js';

const findJobStatement = sql('find_job')`
select ${SENT_COLUMNS}, (select name from drover.session where id = session_id) as worker
from (
  select ${UNFINISHED_COLUMNS}
  from drover.job
  where id = $1
  union all
  select ${FINISHED_COLUMNS}
  from drover.job_history
  where id = $1 and finished_at >= $2
) j
limit 1`;

/** The same without large columns, because waiting callers ask for it repeatedly. */
const findOutcomeStatement = sql('find_outcome')`
select state, null as result, null as error
from drover.job
where id = $1
union all
select state, result::text, error::text
from drover.job_history
where id = $1 and finished_at >= $2
limit 1`;

/** `result` and `error` are JSON. */
export type JobOutcome = { state: JobState; result: string | null; error: string | null };

export async function findJob(db: Runner, id: string, isHidden = false): Promise<JsonText | undefined> {
  const row = await findRow(db, id);
  return row && new JsonText(jobText(row, isHidden));
}

/** The answer to a cancel. */
export async function findCancelledJob(
  db: Runner,
  id: string,
  { alreadyCancelled, isHidden }: { alreadyCancelled: boolean; isHidden: boolean },
): Promise<JsonText | undefined> {
  const row = await findRow(db, id);
  return row && new JsonText(`${jobText(row, isHidden).slice(0, -1)},"alreadyCancelled":${alreadyCancelled}}`);
}

export async function findJobWithAttempts(db: Runner, id: string, isHidden = false): Promise<JsonText | undefined> {
  const row = await findRow(db, id);
  return row && new JsonText(jobWithAttemptsText(row, isHidden));
}

export async function findOutcome(db: Runner, id: string): Promise<JobOutcome | undefined> {
  const [row] = await db.run<JobOutcome>(findOutcomeStatement, [id, earliestFinish(id)]);
  return row;
}

export function hiddenOutcome({ state, result, error }: JobOutcome): JobOutcome {
  return { state, result: hiddenJson(result), error: hiddenErrorText(error) };
}

async function findRow(db: Runner, id: string): Promise<JobRow | undefined> {
  const [row] = await db.run<JobRow>(findJobStatement, [id, earliestFinish(id)]);
  return row;
}
