/**
 * A failed attempt, for a batch: running → scheduled while attempts are left and the error is not permanent, else running →
 * failed (or cancelled, if that was requested meanwhile). Which of the two is decided here, from the row, never by the worker.
 * Attempts that were lost with their worker do not count against the limit; they have one of their own (see lose).
 */
import type { JobError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, runVerb } from './change.js';
import { finish, selectEnded } from './finish.js';
import { lockGrants, SAME_GRANT } from './same-grant.js';
import { mayMove, stateAfter } from './states.js';
import { wasCancelled } from './stop-reason.js';
import { withAttempt } from './with-attempt.js';

export type Failure = {
  id: string;
  fence: number;
  runMs: number;
  error: JobError;
  /** Undefined: the error is permanent. */
  retryInMs?: number | undefined;
};

const MAY_RETRY = `
    o.retry_in_ms is not null and j.attempt - j.lost_attempts < j.max_attempts and j.cancel_requested_at is null`;
const STARTED_AT = "now() - o.run_ms * interval '1 millisecond'";
const WITH_FAILED_ATTEMPT = withAttempt('failed', STARTED_AT, 'o.error::json');
const RETRY_LATER = 'retryLater';

const ENDING = finish({
  verb: 'fail',
  using: 'locked o',
  where: `${SAME_GRANT} and not o.may_retry`,
  to: `case when ${wasCancelled('j')} then ${stateAfter('fail', 'cancelled')} else ${stateAfter('fail', 'failed')} end`,
  startedAt: STARTED_AT,
  attempts: WITH_FAILED_ATTEMPT,
  error: 'o.error',
  waitMs: "greatest(0, date_part('epoch', now() - j.run_at) * 1000 - o.run_ms)",
  runMs: 'o.run_ms',
  retried: 'retried',
});

const fail = sql('fail')`
with outcome as materialized (
  select * from json_to_recordset($1) as o(
    id uuid, fence int, run_ms double precision, retry_in_ms double precision, error text)
), ${lockGrants('fail', `, ${MAY_RETRY} as may_retry`)}, retried as (
  update drover.job j
  set state = ${stateAfter(RETRY_LATER, 'scheduled')}, session_id = null, started_at = null, inherited = false,
    run_at = now() + o.retry_in_ms * interval '1 millisecond', attempts = ${WITH_FAILED_ATTEMPT}
  from locked o
  where ${SAME_GRANT} and ${mayMove(RETRY_LATER)} and o.may_retry
  returning j.*, o.from_state, o.retry_in_ms, o.run_ms
), ${ENDING}
${selectEnded('fail', {
  retried: { from: 'from_state', to: 'retried.state', verb: `'${RETRY_LATER}'`, dueInMs: 'retry_in_ms' },
})}`;

export function failJobs(db: Runner, serverId: string, items: readonly Failure[]): Promise<Change[]> {
  const rows = items.map(({ id, fence, runMs, error, retryInMs }) => ({
    ...{ id, fence, run_ms: runMs, retry_in_ms: retryInMs },
    error: JSON.stringify(error),
  }));
  return runVerb(db, fail, [JSON.stringify(rows), serverId], { verb: 'fail', from: 'running', to: 'failed' });
}
