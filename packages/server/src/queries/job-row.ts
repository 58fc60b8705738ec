/**
 * Converts rows of the job tables to jobs of the API. Both tables are read through one list of columns, so that a
 * query can union them and other code need not know which table a job is in.
 */
import {
  type Attempt,
  type Job,
  type JobError,
  type JobState,
  type JobWithAttempts,
  STORED_OPTION_NAMES,
} from '@drover/protocol';

type StoredOptions = Pick<Job, (typeof STORED_OPTION_NAMES)[number]>;

const SHARED_COLUMNS = `id, type, queue, state, priority, payload, attempt, max_attempts, options,
    tags, hold_if_lost, run_at, expires_at, created_at, started_at, cancel_requested_at, session_id, parent_id, progress, attempts`;

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
  options: (StoredOptions & Partial<Pick<Job, 'occurrence'>>) | null;
  tags: string[] | null;
  hold_if_lost: boolean;
  run_at: Date;
  expires_at: Date | null;
  created_at: Date;
  started_at: Date | null;
  cancel_requested_at: Date | null;
  parent_id: string | null;
  progress: unknown;
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
    ...storedOptions(row.options ?? {}),
    tags: row.tags ?? [],
    onLost: row.hold_if_lost ? 'hold' : 'rerun',
    runAt: isoTime(row.run_at),
    expiresAt: toTime(row.expires_at),
    createdAt: isoTime(row.created_at),
    startedAt: toTime(row.started_at),
    finishedAt: toTime(row.finished_at),
    cancelRequestedAt: toTime(row.cancel_requested_at),
    worker: row.worker,
    parentId: row.parent_id,
    occurrence: row.options?.occurrence ?? null,
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

function storedOptions(options: Partial<StoredOptions>): StoredOptions {
  // one entry per name, which TypeScript cannot infer through fromEntries
  return Object.fromEntries(STORED_OPTION_NAMES.map((name) => [name, options[name] ?? null])) as StoredOptions;
}

function toTime(date: Date | null): string | null {
  return date === null ? null : isoTime(date);
}

const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** A row written by hand may have a time that no date of JavaScript can hold. A list must not fail because of it. */
function isoTime(date: Date): string {
  const ms = Number(date);
  return new Date(Number.isNaN(ms) ? LATEST_MS : Math.min(Math.max(ms, 0), LATEST_MS)).toISOString();
}
