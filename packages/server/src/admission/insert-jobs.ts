/**
 * new → ready, scheduled or running, for a batch: all of it or none. Repeating a batch is harmless: a job that
 * exists, finished or not, stays unchanged. There are two statements: the SQL function that children, schedules and
 * SQL callers use too, and COPY for large batches without options (docs/internals/enqueue.md).
 */
import { type AuditRow, insertAudit } from '../access/audit.js';
import { nameArray, plainArray, readPlainArray, textArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import { DatabaseError } from '../db/database-error.js';
import { sql } from '../db/statement.js';
import type { TextValue } from '../db/text-query.js';
import { type IdRange, idRangeOf } from '../new-jobs/id-range.js';
import type { RowToInsert } from '../new-jobs/job-to-insert.js';
import { canCopy, copyJobs } from './copy-jobs.js';

const UNIQUE_VIOLATION = '23505';

/** The payloads are one parameter, with one line per payload. */
const insert = sql('insert_jobs')`select drover.insert_jobs($1, $2, $3, string_to_array($4, E'\n'), $5, $6, $7)`;

/** With rows of the audit trail. */
const insertAudited = sql('insert_jobs_audited')`
with noted as (${insertAudit('$8')})
select drover.insert_jobs($1, $2, $3, string_to_array($4, E'\n'), $5, $6, $7)`;

const NONE: ReadonlySet<string> = new Set();

/** Inserts jobs and returns the ids that existed already. `mayExist`: an earlier try may have inserted them. */
export async function insertJobs(
  db: Runner,
  rows: readonly RowToInsert[],
  { mayExist = false, audit = [] }: { mayExist?: boolean; audit?: readonly AuditRow[] } = {},
): Promise<ReadonlySet<string>> {
  const range = idRangeOf(rows.map(({ job }) => job));
  if (!mayExist && audit.length === 0 && canCopy(rows, range)) {
    try {
      await copyJobs(db, rows, range);
      return NONE;
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.sqlState !== UNIQUE_VIOLATION) throw error;
    }
  }
  const columns = columnsOf(rows, range);
  const [[existing] = []] =
    audit.length === 0
      ? await db.runTexts(insert, columns)
      : await db.runTexts(insertAudited, [...columns, JSON.stringify(audit)]);
  return existing ? new Set(readPlainArray(existing)) : NONE;
}

function columnsOf(rows: readonly RowToInsert[], range: IdRange | undefined): TextValue[] {
  return [
    plainArray(rows.map(({ job }) => job.id)),
    nameArray(rows.map(({ job }) => job.type)),
    nameArray(rows.map(({ job }) => job.queue)),
    rows.map(({ job }) => job.payload).join('\n'),
    rows.some(({ sessionId }) => sessionId) ? plainArray(rows.map(({ sessionId }) => sessionId)) : null,
    // null if no job has options, which is the usual case
    rows.some(({ job }) => job.options)
      ? textArray(rows.map(({ job }) => job.options && JSON.stringify(job.options)))
      : null,
    // without a range, the whole history is searched
    range?.historyFrom ?? '-infinity',
  ];
}
