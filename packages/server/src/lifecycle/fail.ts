/**
 * A failed attempt, for a batch: running → scheduled while attempts are left and the error is not
 * permanent, else running → failed (or cancelled, if somebody had asked for that meanwhile). Which of the
 * two is decided here, from the row, never by the worker. Attempts that were lost with their worker do not
 * count against the limit; they have one of their own (see lose).
 */
import type { JobError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_FINISHED_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';
import { SAME_GRANT } from './same-grant.js';

export type Failure = {
  id: string;
  fence: number;
  runMs: number;
  error: JobError;
  /** Undefined: the error is permanent. */
  retryInMs: number | undefined;
};

const MAY_RETRY = `
    o.retry_in_ms is not null and j.attempt - j.lost_attempts < j.max_attempts and j.cancel_requested_at is null`;
const THIS_GRANT = `${SAME_GRANT} and j.state in ('running', 'unknown')`;
const STARTED_AT = "now() - o.run_ms * interval '1 millisecond'";

const fail = sql('fail')`
with outcome as materialized (
  select * from json_to_recordset($1) as o(
    id uuid, fence int, run_ms double precision, retry_in_ms double precision, error text)
), retried as (
  update drover.job j
  set state = 'scheduled', session_id = null, started_at = null, inherited = false,
    run_at = now() + o.retry_in_ms * interval '1 millisecond',
    attempts = drover.add_attempt(j.attempts, j.attempt, 'failed', ${STARTED_AT}, j.session_id, o.error::json)
  from outcome o
  where ${THIS_GRANT} and ${MAY_RETRY}
  returning j.id, j.queue, j.type, o.run_ms
), finished as (
  delete from drover.job j
  using outcome o
  where ${THIS_GRANT} and not (${MAY_RETRY})
  returning j.*, o.run_ms,
    case when j.cancel_requested_at is not null and (j.expires_at is null or j.expires_at > now())
      then 'cancelled' else 'failed' end::drover.job_state as ended_state,
    ${STARTED_AT} as ended_started_at,
    drover.add_attempt(j.attempts, j.attempt, 'failed', ${STARTED_AT}, j.session_id, o.error::json) as ended_attempts,
    null::json as ended_result, o.error::json as ended_error,
    greatest(0, extract(epoch from now() - j.run_at) * 1000 - o.run_ms) as wait_ms
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), ended as (
  select id, queue, type, ended_state, wait_ms, run_ms from finished
  union all
  select id, queue, type, 'scheduled', 0, run_ms from retried
), counted as (${addToRollup('ended', '$2')}
)
select id::text as id, ended_state::text as state from ended`;

type Row = { id: string; state: 'scheduled' | 'failed' | 'cancelled' };

/** Gives the ids that were changed, and of those the ones that have ended by it. */
export async function failJobs(
  db: Runner,
  serverId: string,
  items: Failure[],
): Promise<{ changed: string[]; failed: string[]; cancelled: string[] }> {
  const rows = items.map(({ id, fence, runMs, error, retryInMs }) => ({
    id,
    fence,
    run_ms: runMs,
    retry_in_ms: retryInMs,
    error: JSON.stringify(error),
  }));
  const answer = await db.run<Row>(fail, [JSON.stringify(rows), serverId]);
  const idsOf = (rows: Row[]) => rows.map(({ id }) => id);
  return {
    changed: idsOf(answer),
    failed: idsOf(answer.filter(({ state }) => state === 'failed')),
    cancelled: idsOf(answer.filter(({ state }) => state === 'cancelled')),
  };
}
