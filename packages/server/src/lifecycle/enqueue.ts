/**
 * new → ready, scheduled or running, for a batch: all of it or none. Repeating a batch is harmless: a job
 * that exists, finished or not, is left as it is. The work is done by the SQL function that transactional
 * enqueues use too (migration 0012), or where jobs are plain and surely new: in known lanes by statements of their own, for one
 * (insert-one.ts) and for some of the present era (insert-many.ts), otherwise for many by COPY (copy-jobs.ts).
 */
import { DEFAULT_QUEUE, type NewJob } from '@drover/protocol';
import { nameArray, plainArray, readPlainArray, textArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import type { DatabaseError } from '../db/database-error.js';
import { sql } from '../db/statement.js';
import type { TextValue } from '../db/text-query.js';
import { msOfId } from '../id-time.js';
import { copyJobs, isWorthCopying } from './copy-jobs.js';
import type { Eras } from './eras.js';
import { type IdRange, idRangeOf } from './id-range.js';
import { insertManyInEra, MAX_JOBS_IN_ERA } from './insert-many.js';
import { ERA_IS_OVER, insertOne, insertOneInEra } from './insert-one.js';
import type { KnownLanes } from './known-lanes.js';
import { UnreadableJson, UnreadJson } from './unread-json.js';

/** A job on its way into the database. */
export type JobToInsert = NewJob & { id: string; parentId?: string };

/** Ids younger than this are taken for new. If one is not, that is noticed, and only costs a second try. */
const NEW_WITHIN_MS = 10_000;
const UNIQUE_VIOLATION = '23505';
const INVALID_TEXT = '22P02';

const insert = sql('insert_jobs')`select drover.insert_jobs($1, $2, $3, $4, $5, $6, $7, $8)`;
const repeat = sql('repeat_jobs')`select existing, era from drover.repeat_jobs($1, $2, $3, $4, $5, $6, $7)`;

/** A job with its payload as text; `sessionId` gives it to that worker at once. */
export type RowToInsert = { job: JobToInsert; payloadText: string; sessionId?: string | undefined };

export type InsertOptions = {
  /** They may have been inserted by an earlier try, or may be yet: that the era ends keeps it from bringing one back. */
  isRepeated?: boolean;
  /** What is known of the database; a lane that was noted is added. */
  lanes?: KnownLanes;
  eras?: Eras;
  /** If the ids of the jobs were made for this: in which era. Zero if that is not known. */
  era?: number | undefined;
};

/** Inserts jobs and gives the ids that existed already. Throws UnreadableJson if a payload that nobody has read is no JSON. */
export function insertJobs(
  db: Runner,
  rows: readonly RowToInsert[],
  options: InsertOptions = {},
): Promise<ReadonlySet<string>> {
  const range = idRangeOf(rows);
  if (options.isRepeated) return repeatColumns(db, rows, range, options.eras);
  const areNew = range !== undefined && msOfId(range.oldest) > Date.now() - NEW_WITHIN_MS;
  if (!areNew) return insertColumns(db, rows, range, false);
  const look = (error: unknown) => insertWithLook(db, rows, range, options, error);
  const inEra = insertInEra(db, rows, options);
  return inEra === undefined ? insertNew(db, rows, range, options).catch(look) : inEra.then(none, look);
}

/** Undefined unless the ids of the jobs were made in the present era, and they are plain and their lanes known. */
function insertInEra(
  db: Runner,
  rows: readonly RowToInsert[],
  { lanes, eras, era }: InsertOptions,
): Promise<unknown> | undefined {
  if (era === undefined || era === 0 || era !== eras?.current || lanes === undefined) return undefined;
  if (rows.length > MAX_JOBS_IN_ERA || rows.some(({ job }) => hasOptions(job)) || !areKnown(rows, lanes))
    return undefined;
  return rows.length === 1 ? insertOneInEra(db, rows[0] as RowToInsert, era) : insertManyInEra(db, rows, era);
}

/** After an insert that took the jobs for new and failed: with a look at what is there, if that was the trouble. */
function insertWithLook(
  db: Runner,
  rows: readonly RowToInsert[],
  range: IdRange,
  options: InsertOptions,
  error: unknown,
): Promise<ReadonlySet<string>> {
  const { sqlState } = error as DatabaseError;
  if (sqlState === INVALID_TEXT && rows.some(isUnread)) throw new UnreadableJson({ cause: error });
  if (sqlState === ERA_IS_OVER && options.era !== undefined) options.eras?.isOver();
  else if (sqlState !== UNIQUE_VIOLATION) throw error;
  return insertColumns(db, rows, range, false);
}

const NONE: ReadonlySet<string> = new Set();
const none = () => NONE;

/** Should one of them exist after all, that is a unique violation, or, if it is only found in the history, may be answered. */
function insertNew(
  db: Runner,
  rows: readonly RowToInsert[],
  range: IdRange,
  { lanes }: InsertOptions,
): Promise<ReadonlySet<string>> {
  if (rows.some(({ job }) => hasOptions(job))) return insertColumns(db, rows, range, true);
  if (lanes !== undefined && rows.length === 1 && areKnown(rows, lanes)) {
    return insertOne(db, rows[0] as RowToInsert, range.historyFrom).then(none);
  }
  const added = isWorthCopying(rows.length, range)
    ? copyJobs(db, rows, range).then(none)
    : insertColumns(db, rows, range, true);
  return added.then((duplicates) => {
    for (const { queue = DEFAULT_QUEUE, type } of lanesOf(rows)) lanes?.add(queue, type);
    return duplicates;
  });
}

function areKnown(rows: readonly RowToInsert[], lanes: KnownLanes): boolean {
  return lanesOf(rows).every(({ queue = DEFAULT_QUEUE, type }) => lanes.has(queue, type));
}

/** A job of each lane, at least: the first of those with the same one in a row, as most of a batch have. */
function lanesOf(rows: readonly RowToInsert[]): JobToInsert[] {
  const [first] = rows as [RowToInsert];
  const jobs = [first.job];
  let before = first.job;
  for (const { job } of rows) {
    if (job.type === before.type && job.queue === before.queue) continue;
    jobs.push(job);
    before = job;
  }
  return jobs;
}

function isUnread({ job }: RowToInsert): boolean {
  return job.payload instanceof UnreadJson;
}

async function insertColumns(
  db: Runner,
  rows: readonly RowToInsert[],
  range: IdRange | undefined,
  areNew: boolean,
): Promise<ReadonlySet<string>> {
  const [[existing] = []] = await db.runTexts(insert, [...columnsOf(rows, range), String(areNew)]);
  return toIds(existing);
}

async function repeatColumns(
  db: Runner,
  rows: readonly RowToInsert[],
  range: IdRange | undefined,
  eras: Eras | undefined,
): Promise<ReadonlySet<string>> {
  const [[existing, era] = []] = await db.runTexts(repeat, columnsOf(rows, range));
  eras?.begins(Number(era));
  return toIds(existing);
}

function toIds(existing: TextValue): ReadonlySet<string> {
  return existing ? new Set(readPlainArray(existing)) : NONE;
}

function columnsOf(rows: readonly RowToInsert[], range: IdRange | undefined): TextValue[] {
  // they become one text: of "1,2" and "3" it would be three
  for (const { job } of rows) if (job.payload instanceof UnreadJson) job.payload.toJSON();
  return [
    plainArray(rows.map(({ job }) => job.id)),
    nameArray(rows.map(({ job }) => job.type)),
    nameArray(rows.map(({ job }) => job.queue)),
    // PostgreSQL keeps each element as it was written, \u0000 included
    `[${rows.map(({ payloadText }) => payloadText).join(',')}]`,
    rows.some(({ sessionId }) => sessionId) ? plainArray(rows.map(({ sessionId }) => sessionId)) : null,
    // null if no job has options, which is the usual case
    rows.some(({ job }) => hasOptions(job)) ? textArray(rows.map(({ job }) => optionsText(job))) : null,
    // without a range, all of the history counts
    range?.historyFrom ?? '-infinity',
  ];
}

/** What a job without options has, which on the hot path is most of them. */
const PLAIN_FIELDS = new Set(['id', 'type', 'queue', 'payload']);

function hasOptions(job: JobToInsert): boolean {
  for (const field in job) if (!PLAIN_FIELDS.has(field)) return true;
  return false;
}

function optionsText(job: JobToInsert): string | undefined {
  return hasOptions(job) ? JSON.stringify(optionsOf(job)) : undefined;
}

function optionsOf(job: JobToInsert): object {
  return {
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
