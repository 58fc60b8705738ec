/**
 * The SQL that every finishing verb shares: the columns a job takes along from the hot table to the
 * history. A verb deletes the rows in a CTE named `finished`, which must also give `ended_state`,
 * `ended_started_at`, `ended_attempts`, `ended_result` and `ended_error`, and inserts them with this.
 * Delete and insert are one statement: a job is never in both tables and never in none.
 */
const TAKEN_ALONG = `
  id, parent_id, session_id, created_at, run_at, expires_at, cancel_requested_at, timeout_ms, retention_ms,
  fence, attempt, max_attempts, lost_attempts, priority, hold_if_lost, queue, type, tags, backoff, payload, progress, occurrence`;

export const INSERT_FINISHED_INTO_HISTORY = insertFinished('lost_attempts');
/** The same for attempts that end with the loss of their worker. */
export const INSERT_LOST_INTO_HISTORY = insertFinished('lost_attempts + 1');

function insertFinished(lostAttempts: string): string {
  return `
  insert into drover.job_history (${TAKEN_ALONG},
    started_at, finished_at, keep_until, state, attempts, result, error)
  select ${TAKEN_ALONG.replace('lost_attempts', lostAttempts)},
    ended_started_at, now(), now() + retention_ms * interval '1 millisecond',
    ended_state, ended_attempts, ended_result, ended_error
  from finished`;
}

/** The way back, for a retry by hand. */
export const RETURN_FROM_HISTORY_COLUMNS = TAKEN_ALONG.replace('session_id, ', '')
  .replace('cancel_requested_at, ', '')
  .replace('run_at, ', '');
