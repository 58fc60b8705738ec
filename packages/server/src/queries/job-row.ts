/**
 * Converts rows of the job tables to jobs of the API. Both tables are read through one list of columns, so that a
 * query can union them and other code need not know which table a job is in.
 */
import type { Attempt, Job, JobError, JobState, JobWithAttempts } from '@drover/protocol';

const SHARED_COLUMNS = `id, type, queue, state, priority, payload, attempt, max_attempts, backoff, timeout_ms, retention_ms,
    tags, hold_if_lost, run_at, expires_at, created_at, started_at, cancel_requested_at, session_id, parent_id, progress, attempts, occurrence`;

/** The columns of an unfinished job, in the order of FINISHED_COLUMNS. */
export const UNFINISHED_COLUMNS = `${SHARED_COLUMNS}, null::timestamptz as finished_at, null::json as result, null::json as error`;
export const FINISHED_COLUMNS = `${SHARED_COLUMNS}, finished_at, result, error`;

/** A row of either list with `worker`, the name of the session that has or had the job. */
export type JobRow = {
  id: string;
  type: string;
  queue: string;
  state: JobState;
  priority: number;
  payload: unknown;
  attempt: number;
  max_attempts: number;
  backoff: unknown;
  /** A bigint, which the driver returns as a string. */
  timeout_ms: string | null;
  retention_ms: string | null;
  tags: string[] | null;
  hold_if_lost: boolean;
  run_at: Date;
  expires_at: Date | null;
  created_at: Date;
  started_at: Date | null;
  cancel_requested_at: Date | null;
  parent_id: string | null;
  progress: unknown;
  occurrence: Job['occurrence'];
  attempts: Attempt[] | null;
  finished_at: Date | null;
  result: unknown;
  error: JobError | null;
  worker: string | null;
};

export function toJob(row: JobRow): Job {
  return {
    id: row.id,
    type: row.type,
    queue: row.queue,
    state: row.state,
    priority: row.priority,
    payload: row.payload,
    attempt: row.attempt,
    maxAttempts: row.max_attempts,
    backoff: row.backoff ?? null,
    timeout: toNumber(row.timeout_ms),
    retention: toNumber(row.retention_ms),
    tags: row.tags ?? [],
    onLost: row.hold_if_lost ? 'hold' : 'rerun',
    runAt: row.run_at.toISOString(),
    expiresAt: toTime(row.expires_at),
    createdAt: row.created_at.toISOString(),
    startedAt: toTime(row.started_at),
    finishedAt: toTime(row.finished_at),
    cancelRequestedAt: toTime(row.cancel_requested_at),
    worker: row.worker,
    parentId: row.parent_id,
    occurrence: row.occurrence,
    progress: row.progress ?? null,
    result: row.result ?? null,
    error: row.error ?? null,
  };
}

export function toJobWithAttempts(row: JobRow): JobWithAttempts {
  const attempts = row.attempts ?? [];
  const last = lastAttempt(row);
  return { ...toJob(row), attempts: last ? [...attempts, last] : attempts };
}

/** The attempt that is not in the row's list: the list only contains attempts that ended unsuccessfully. */
function lastAttempt(row: JobRow): Attempt | undefined {
  if (row.state !== 'running' && row.state !== 'succeeded') return undefined;
  return {
    attempt: row.attempt,
    outcome: row.state,
    startedAt: toTime(row.started_at),
    finishedAt: toTime(row.finished_at),
    worker: row.worker,
    error: null,
  };
}

function toNumber(bigint: string | null): number | null {
  return bigint === null ? null : Number(bigint);
}

function toTime(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}
