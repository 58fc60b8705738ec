/**
 * scheduled → ready, for a batch of jobs whose time has come by the database's clock. A promoted job joins
 * the end of its lane: order is by the moment a job became ready, so a job that is retried again and again
 * cannot stay at the head.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const promote = sql('promote')`
with promoted as (
  update drover.job
  set state = 'ready', order_key = nextval('drover.job_order')
  -- the state is not asked for again: the rows are locked as scheduled, and the planner could answer the
  -- question from the index of all scheduled jobs
  where id = any(array(
    select id
    from drover.job
    where state = 'scheduled' and run_at <= now()
    order by run_at
    limit $1
    for update skip locked
  ))
  returning 1
)
select count(*)::int as count from promoted`;

const nextDue = sql('next_due')`
select extract(epoch from min(run_at) - clock_timestamp()) * 1000 as ms
from drover.job
where state = 'scheduled'`;

/** Promotes up to `limit` jobs and gives their number. */
export async function promoteJobs(db: Runner, limit: number): Promise<number> {
  const [row] = await db.run<{ count: number }>(promote, [limit]);
  return row?.count ?? 0;
}

/** Milliseconds until the next scheduled job is due (negative: overdue), or null if there is none. */
export async function untilNextDueMs(db: Runner): Promise<number | null> {
  const [row] = await db.run<{ ms: string | null }>(nextDue);
  return row?.ms == null ? null : Number(row.ms);
}
