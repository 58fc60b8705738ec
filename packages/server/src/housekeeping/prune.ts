/** Deletes what is past its retention, and makes the partitions of the next days. */
import type { Logger } from 'pino';
import { pruneAudit } from '../access/audit.js';
import { pruneTokens } from '../access/token-table.js';
import type { Runner } from '../db/database.js';
import { ensurePartitions, pruneHistory, pruneLanes, pruneOccurrences } from '../lifecycle/prune.js';
import { forgetOldTypes } from '../sessions/type-store.js';
import { pruneRuns } from '../workflows/prune-runs.js';

export async function prune(
  db: Runner,
  { retentionMs, auditRetentionMs }: { retentionMs: number; auditRetentionMs: number },
  logger: Logger,
): Promise<void> {
  await ensurePartitions(db);
  const { dropped } = await pruneHistory(db, retentionMs);
  await pruneRuns(db, retentionMs);
  await pruneOccurrences(db, retentionMs);
  await pruneAudit(db, auditRetentionMs);
  await pruneTokens(db, auditRetentionMs);
  await pruneLanes(db);
  const types = await forgetOldTypes(db);
  if (types.length > 0)
    logger.info({ event: 'types.forgotten', types }, 'job types that no worker offers any more were forgotten');
  if (dropped.length > 0) logger.info({ event: 'history.dropped', dropped }, 'history past its retention was dropped');
}
