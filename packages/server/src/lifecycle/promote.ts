/**
 * scheduled → ready, for a batch of jobs whose time has come by the database's clock. A promoted job joins the end of its lane:
 * lanes are in the order in which jobs became ready, so a job that is retried again and again cannot stay at the head.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, changeOf, runVerb } from './change.js';
import { mayMove, stateAfter } from './states.js';

const IS_SCHEDULED = mayMove('promote', 'state');

const promote = sql('promote')`
update drover.job j
set state = ${stateAfter('promote', 'ready')}, order_key = nextval('drover.job_order')
-- the state is not checked again: the rows are locked as scheduled, and the planner could answer the
-- question from the index of all scheduled jobs
where id = any(array(
  select id
  from drover.job
  where ${IS_SCHEDULED} and run_at <= now()
  order by run_at
  limit $1
  for update skip locked
))
returning ${changeOf('j')}`;

const nextDue = sql('next_due')`
select extract(epoch from min(run_at) - clock_timestamp()) * 1000 as ms
from drover.job
where ${IS_SCHEDULED}`;

/** Promotes up to `limit` jobs. */
export function promoteJobs(db: Runner, limit: number): Promise<Change[]> {
  return runVerb(db, promote, [String(limit)], { verb: 'promote', from: 'scheduled', to: 'ready' });
}

/** Milliseconds until the next scheduled job is due (negative: overdue), or null if there is none. */
export async function untilNextDueMs(db: Runner): Promise<number | null> {
  const [row] = await db.run<{ ms: string | null }>(nextDue);
  return row?.ms == null ? null : Number(row.ms);
}
