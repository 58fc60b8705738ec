/**
 * Jobs past their expiry, by the database's clock. A queued one fails at once; for a running one a cancel
 * is requested, and the worker's answer ends it as failed.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_FINISHED_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';

const EXPIRED_ERROR = `json_build_object('name', 'ExpiredError', 'code', 'expired', 'message',
      'the job had not finished when it expired at ' || drover.iso(expires_at))`;

const IS_QUEUED = "state in ('blocked', 'scheduled', 'ready')";

const expireWaiting = sql('expire_waiting')`
with finished as (
  delete from drover.job
  where id = any(array(
    select id
    from drover.job
    where expires_at <= now() and ${IS_QUEUED}
    order by expires_at
    limit $1
    for update skip locked
  )) and ${IS_QUEUED}
  returning *, 'failed'::drover.job_state as ended_state, started_at as ended_started_at, attempts as ended_attempts,
    null::json as ended_result, ${EXPIRED_ERROR} as ended_error, 0 as wait_ms, 0 as run_ms
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
)
select id::text as id from finished`;

const requestStopOfRunning = sql('expire_running')`
update drover.job
set cancel_requested_at = now()
where id = any(array(
  select id
  from drover.job
  where expires_at <= now() and state = 'running' and cancel_requested_at is null
  limit $1
  for update skip locked
))
returning id::text as id`;

const toEnd = sql('anything_to_end')`
select exists (
    select from drover.job
    where expires_at <= now() and (${IS_QUEUED} or (state = 'running' and cancel_requested_at is null))
  ) or exists (select from drover.job where cancel_requested_at is not null and session_id is null and ${IS_QUEUED}) as found`;

/** Whether a look at what has expired, or was cancelled on its way back, is worth while: usually not. */
export async function isAnythingToEnd(db: Runner): Promise<boolean> {
  const [row] = await db.run<{ found: boolean }>(toEnd);
  return row?.found ?? false;
}

/** Fails up to `limit` queued jobs and asks for the stop of up to `limit` running ones. */
export async function expireJobs(
  db: Runner,
  serverId: string,
  limit: number,
): Promise<{ failed: string[]; stopping: string[] }> {
  const failed = await db.run<{ id: string }>(expireWaiting, [limit, serverId]);
  const stopping = await db.run<{ id: string }>(requestStopOfRunning, [limit]);
  return { failed: failed.map((row) => row.id), stopping: stopping.map((row) => row.id) };
}
