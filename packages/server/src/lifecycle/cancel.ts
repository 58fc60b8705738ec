/**
 * Cancelling by request. A job that is not running ends at once; for a running one the request is noted
 * in its row, and the server that serves its worker passes it on (see dispatch/cancellations).
 */
import type { JobState } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_FINISHED_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';

const ENDED_AT_ONCE = `
    'cancelled'::drover.job_state as ended_state, started_at as ended_started_at, attempts as ended_attempts,
    null::json as ended_result, null::json as ended_error, 0 as wait_ms, 0 as run_ms`;

const cancelWaiting = sql('cancel_waiting')`
with finished as (
  delete from drover.job
  where id = any($1::uuid[]) and state in ('blocked', 'scheduled', 'ready', 'unknown')
  returning *, ${ENDED_AT_ONCE}
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
)
select id::text as id from finished`;

const requestCancel = sql('request_cancel')`
update drover.job j
set cancel_requested_at = coalesce(cancel_requested_at, now())
where id = any($1::uuid[]) and j.state = 'running'
returning id::text as id, fence, session_id::text as "sessionId"`;

/** Jobs that came back from a worker while a cancel was under way. */
const cancelRequested = sql('cancel_requested')`
with finished as (
  delete from drover.job
  where id = any(array(
    select id
    from drover.job
    -- without a holder: that part of the index of held jobs is usually empty
    where cancel_requested_at is not null and session_id is null and state in ('blocked', 'scheduled', 'ready')
    limit $1
    for update skip locked
  )) and state in ('blocked', 'scheduled', 'ready')
  returning *, ${ENDED_AT_ONCE}
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
)
select id::text as id from finished`;

const stateOf = sql('state_of')`
select state::text as state from drover.job where id = $1
union all
select state::text from drover.job_history where id = $1
limit 1`;

export type CancelRequest = { id: string; fence: number; sessionId: string };

/** Cancels what is not running and notes the request for what is. Ids in neither list are finished or unknown. */
export async function cancelJobs(
  db: Runner,
  serverId: string,
  ids: string[],
): Promise<{ cancelled: string[]; requested: CancelRequest[] }> {
  const cancelled = (await db.run<{ id: string }>(cancelWaiting, [ids, serverId])).map((row) => row.id);
  const rest = ids.filter((id) => !cancelled.includes(id));
  const requested = rest.length > 0 ? await db.run<CancelRequest>(requestCancel, [rest]) : [];
  return { cancelled, requested };
}

/** Ends up to `limit` jobs that came back while a cancel was under way, and gives their ids. */
export async function cancelReturnedJobs(db: Runner, serverId: string, limit: number): Promise<string[]> {
  return (await db.run<{ id: string }>(cancelRequested, [limit, serverId])).map((row) => row.id);
}

/** The state of a job wherever it is, or undefined if there is no such job. */
export async function jobState(db: Runner, id: string): Promise<JobState | undefined> {
  const [row] = await db.run<{ state: JobState }>(stateOf, [id]);
  return row?.state;
}
