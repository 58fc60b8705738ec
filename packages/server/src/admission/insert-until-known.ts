/** Repeats an insert that fails while the database is briefly unavailable. The ids make the repetition idempotent. */
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { AuditRow } from '../access/audit.js';
import type { Runner } from '../db/database.js';
import { isPassing, isUnknown } from '../db/database-error.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import type { RowToInsert } from '../new-jobs/job-to-insert.js';
import { insertJobs } from './insert-jobs.js';

const TRIES = 4;
const FIRST_PAUSE_MS = 50;

/** Returns the ids that existed already. */
export async function insertUntilKnown(
  { db, logger }: { db: Runner; logger: Logger },
  rows: readonly RowToInsert[],
  audit: readonly AuditRow[] = [],
): Promise<ReadonlySet<string>> {
  let unknown: unknown;
  for (let tried = 1, pauseMs = FIRST_PAUSE_MS; ; tried++, pauseMs *= 3) {
    failpoint('insert.before');
    try {
      const existing = await insertJobs(db, rows, { mayExist: tried > 1, audit });
      // an earlier try, of this server or another one, may be committed on the primary alone
      if (existing.size > 0) await replicationBarrier(db);
      return existing;
    } catch (error) {
      if (isUnknown(error)) unknown ??= error;
      // the outcome of an earlier try is unknown, whatever the outcome of this one
      if (!isPassing(error) || tried === TRIES) throw unknown ?? error;
      logger.warn({ event: 'enqueue.retried', err: error, jobs: rows.length }, 'jobs could not be inserted, retrying');
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
