/**
 * Converts rows of the job tables to jobs of the API. Both tables are read through one list of columns, so that a
 * query can union them and other code need not know which table a job is in. Stored JSON stays text on its way.
 */
import {
  type Attempt,
  type Job,
  type JobState,
  type LargeJobPart,
  runOfOptions,
  STORED_OPTION_NAMES,
} from '@drover/protocol';
import { isoTime, isoTimeOrNull } from '../base/iso-time.js';
import { hiddenError, hiddenErrorText, hiddenJson } from './hidden.js';

type StoredOptions = Pick<Job, (typeof STORED_OPTION_NAMES)[number]>;

const SMALL_COLUMNS = `id, type, queue, state, priority, attempt, max_attempts, options,
    tags, hold_if_lost, run_at, expires_at, created_at, started_at, cancel_requested_at, session_id, parent_id`;
const SHARED_COLUMNS = `${SMALL_COLUMNS}, payload, progress, attempts`;

/** The columns of an unfinished job, in the order of FINISHED_COLUMNS. */
export const UNFINISHED_COLUMNS = `${SHARED_COLUMNS}, null::timestamptz as finished_at, null::json as result, null::json as error`;
export const FINISHED_COLUMNS = `${SHARED_COLUMNS}, finished_at, result, error`;

/** The columns of a row of either list as they are sent: JSON as text. */
export const SENT_COLUMNS = `${SMALL_COLUMNS}, finished_at, attempts, payload::text as payload, progress::text as progress,
    result::text as result, error::text as error`;

const ERROR_WITHOUT_STACK = `json_strip_nulls(json_build_object(
      'name', error -> 'name', 'message', error -> 'message', 'code', error -> 'code'))`;

/** The columns of a job in a list, and an expression for its size. What is left out is not read from the table. */
export function listedColumns(include: readonly LargeJobPart[]): { columns: string; bytes: string } {
  const error = include.includes('stack') ? 'error' : `case when error is not null then ${ERROR_WITHOUT_STACK} end`;
  const parts = (['payload', 'progress', 'result'] as const).filter((part) => include.includes(part));
  const json = [...parts.map((name) => [name, name]), ['error', error]];
  const sizes = [...json.map(([, value]) => `(${value})::text`), 'options::text', 'tags::text'];
  return {
    columns: [SMALL_COLUMNS, 'finished_at', ...json.map(([name, value]) => `(${value})::text as ${name}`)].join(', '),
    bytes: sizes.map((text) => `coalesce(octet_length(${text}), 0)`).join(' + '),
  };
}

/** A row with `worker`, the name of the session that has or had the job. Absent parts were not asked for. */
export type JobRow = {
  id: string;
  type: string;
  queue: string;
  state: JobState;
  priority: number;
  attempt: number;
  max_attempts: number;
  options: (StoredOptions & Partial<Pick<Job, 'occurrence'>> & Parameters<typeof runOfOptions>[0]) | null;
  tags: string[] | null;
  hold_if_lost: boolean;
  run_at: Date;
  expires_at: Date | null;
  created_at: Date;
  started_at: Date | null;
  cancel_requested_at: Date | null;
  parent_id: string | null;
  finished_at: Date | null;
  attempts?: Attempt[] | null;
  payload?: string;
  progress?: string | null;
  result?: string | null;
  error: string | null;
  worker: string | null;
};

/** JSON. `isHidden`: without the content of payload, progress, result and error. */
export function jobText(row: JobRow, isHidden: boolean): string {
  const { payload, progress, result, error } = isHidden ? { ...row, ...hiddenParts(row) } : row;
  let text = JSON.stringify(fieldsOf(row)).slice(0, -1);
  for (const [name, json] of Object.entries({ payload, progress, result, error })) {
    if (json !== undefined) text += `,"${name}":${json ?? 'null'}`;
  }
  return `${text}}`;
}

function hiddenParts({ payload, progress, result, error }: JobRow): Partial<JobRow> {
  return {
    ...{ payload: hiddenJson(payload), progress: hiddenJson(progress), result: hiddenJson(result) },
    error: hiddenErrorText(error),
  } as Partial<JobRow>;
}

/** JSON. */
export function jobWithAttemptsText(row: JobRow, isHidden: boolean): string {
  const stored = row.attempts ?? [];
  const attempts = isHidden
    ? stored.map((attempt) => ({ ...attempt, error: attempt.error && hiddenError(attempt.error) }))
    : stored;
  const last = lastAttempt(row);
  const all = JSON.stringify(last ? [...attempts, last] : attempts);
  return `${jobText(row, isHidden).slice(0, -1)},"attempts":${all}}`;
}

/** The fields that are not stored as JSON. */
function fieldsOf(row: JobRow): Omit<Job, 'payload' | 'progress' | 'result' | 'error'> {
  return {
    id: row.id,
    type: row.type,
    queue: row.queue,
    state: row.state,
    priority: row.priority,
    attempt: row.attempt,
    maxAttempts: row.max_attempts,
    ...storedOptions(row.options ?? {}),
    tags: row.tags ?? [],
    onLost: row.hold_if_lost ? 'hold' : 'rerun',
    runAt: isoTime(row.run_at),
    expiresAt: isoTimeOrNull(row.expires_at),
    createdAt: isoTime(row.created_at),
    startedAt: isoTimeOrNull(row.started_at),
    finishedAt: isoTimeOrNull(row.finished_at),
    cancelRequestedAt: isoTimeOrNull(row.cancel_requested_at),
    worker: row.worker,
    parentId: row.parent_id,
    occurrence: row.options?.occurrence ?? null,
    run: runOfOptions(row.options ?? {}) ?? null,
  };
}

/** The attempt that is not in the row's list: the list only contains attempts that ended unsuccessfully. */
function lastAttempt(row: JobRow): Attempt | undefined {
  if (row.state !== 'running' && row.state !== 'succeeded') return undefined;
  return {
    attempt: row.attempt,
    outcome: row.state,
    startedAt: isoTimeOrNull(row.started_at),
    finishedAt: isoTimeOrNull(row.finished_at),
    worker: row.worker,
    error: null,
  };
}

function storedOptions(options: Partial<StoredOptions>): StoredOptions {
  // one entry per name, which TypeScript cannot infer through fromEntries
  return Object.fromEntries(STORED_OPTION_NAMES.map((name) => [name, options[name] ?? null])) as StoredOptions;
}
