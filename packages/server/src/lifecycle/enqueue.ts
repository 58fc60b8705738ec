/**
 * new → ready, scheduled or running, for a batch: all of it or none. Repeating a batch is harmless: a job
 * that exists, finished or not, is left as it is. The work is done by the SQL function that transactional
 * enqueues use too; see migration 0004.
 */
import type { NewJob } from '@drover/protocol';
import { nameArray, plainArray, textArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import type { DatabaseError } from '../db/database-error.js';
import { sql } from '../db/statement.js';
import { idPrefix, isLaterThan } from '../id-time.js';

/** A job on its way into the database. */
export type JobToInsert = NewJob & { id: string; parentId?: string };

/** How far a client's clock may be ahead of the database's without a repeated enqueue being missed. */
export const CLOCK_MARGIN_MS = 24 * 3_600_000;

/** Ids younger than this are taken for new. If one is not, that is noticed, and only costs a second try. */
const NEW_WITHIN_MS = 10_000;
const UNIQUE_VIOLATION = '23505';

const insert = sql('insert_jobs')`select drover.insert_jobs($1, $2, $3, $4, $5, $6, $7, $8)::text[] as duplicates`;

/** A job with its payload as text; `sessionId` gives it to that worker at once. */
export type RowToInsert = { job: JobToInsert; payloadText: string; sessionId?: string | undefined };

/** Inserts jobs and gives the ids that existed already. `isRepeated`: they may have been inserted by an earlier try. */
export async function insertJobs(
  db: Runner,
  rows: readonly RowToInsert[],
  { isRepeated = false } = {},
): Promise<Set<string>> {
  const ids = rows.map(({ job }) => job.id);
  const columns = [
    plainArray(ids),
    nameArray(rows.map(({ job }) => job.type)),
    nameArray(rows.map(({ job }) => job.queue)),
    // PostgreSQL keeps each element as it was written, \u0000 included
    `[${rows.map(({ payloadText }) => payloadText).join(',')}]`,
    rows.some(({ sessionId }) => sessionId) ? plainArray(rows.map(({ sessionId }) => sessionId)) : null,
    optionsColumn(rows),
    historyFrom(ids),
  ];
  if (isRepeated || !areNew(ids)) return insertColumns(db, [...columns, false]);
  try {
    return await insertColumns(db, [...columns, true]);
  } catch (error) {
    if ((error as DatabaseError).sqlState !== UNIQUE_VIOLATION) throw error;
    return insertColumns(db, [...columns, false]);
  }
}

async function insertColumns(db: Runner, columns: unknown[]): Promise<Set<string>> {
  const [answer] = await db.run<{ duplicates: string[] | null }>(insert, columns);
  return new Set(answer?.duplicates ?? []);
}

/** Null if no job has options, which is the usual case. */
function optionsColumn(rows: readonly RowToInsert[]): string | null {
  const options = rows.map(({ job }) => optionsOf(job));
  if (options.every((option) => option === undefined)) return null;
  return textArray(options.map((option) => option && JSON.stringify(option)));
}

function optionsOf(job: JobToInsert): object | undefined {
  const options = {
    parent_id: job.parentId,
    priority: job.priority,
    max_attempts: job.maxAttempts,
    backoff: job.backoff,
    timeout_ms: job.timeout,
    retention_ms: job.retention,
    delay_ms: job.delay,
    run_at: job.runAt,
    expires_at: job.expiresAt,
    tags: job.tags?.length ? job.tags : undefined,
    hold_if_lost: job.onLost === 'hold' || undefined,
  };
  return Object.values(options).some((value) => value !== undefined) ? options : undefined;
}

/** One job as JSON text, for what adds jobs inside another statement. */
export function toRow(job: JobToInsert, payloadText: string): string {
  return JSON.stringify({
    id: job.id,
    type: job.type,
    queue: job.queue,
    payload: payloadText,
    ...optionsOf(job),
  });
}

function areNew(ids: readonly string[]): boolean {
  const limit = idPrefix(Date.now() - NEW_WITHIN_MS);
  return ids.every((id) => isLaterThan(id, limit));
}

/**
 * The earliest moment at which a job with one of these ids can have finished: the time in the oldest
 * UUIDv7, less what clocks may differ. An id of another kind tells no time, so all of the history counts.
 */
export function historyFrom(ids: readonly string[]): string {
  let oldest: string | undefined;
  for (const id of ids) {
    if (id[14] !== '7') return '-infinity';
    if (oldest === undefined || id < oldest) oldest = id;
  }
  if (oldest === undefined) return '-infinity';
  const ms = Number.parseInt(oldest.slice(0, 8) + oldest.slice(9, 13), 16);
  return new Date(Math.max(0, ms - CLOCK_MARGIN_MS)).toISOString();
}
