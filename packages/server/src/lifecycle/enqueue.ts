/**
 * new → ready, scheduled or running, for a batch: all of it or none. Repeating a batch is harmless: a job
 * that exists, finished or not, is left as it is. The work is done by the SQL function that transactional
 * enqueues use too; see migration 0002.
 */
import type { NewJob } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

/** A job on its way into the database. */
export type JobToInsert = NewJob & { id: string; parentId?: string };

/** How far a client's clock may be ahead of the database's without a repeated enqueue being missed. */
export const CLOCK_MARGIN_MS = 24 * 3_600_000;

const insertJobs = sql('insert_jobs')`select drover.insert_jobs($1, $2, $3)::text[] as duplicates`;

/** One job as JSON text for `insert_jobs`; `sessionId` gives it to that worker at once. */
export function toRow(job: JobToInsert, payloadText: string, sessionId?: string): string {
  return JSON.stringify({
    id: job.id,
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    max_attempts: job.maxAttempts,
    backoff: job.backoff,
    timeout_ms: job.timeout,
    retention_ms: job.retention,
    delay_ms: job.delay,
    run_at: job.runAt,
    expires_at: job.expiresAt,
    tags: job.tags?.length ? job.tags : undefined,
    // as text inside the text: PostgreSQL then keeps the payload as it came, \u0000 included
    payload: payloadText,
    parent_id: job.parentId,
    hold_if_lost: job.onLost === 'hold' || undefined,
    session_id: sessionId,
  });
}

/** Inserts rows made by `toRow` and gives the ids that existed already. */
export async function insertRows(db: Runner, rows: string[], ids: string[]): Promise<Set<string>> {
  const values = [`[${rows.join(',')}]`, rows.length, historyFrom(ids)];
  const [answer] = await db.run<{ duplicates: string[] | null }>(insertJobs, values);
  return new Set(answer?.duplicates ?? []);
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
