/**
 * Before a statement that found its work done is acknowledged: waits until what an earlier try may have committed is as durable as
 * the database promises. That try may have been made by this server or by another one.
 *
 * With synchronous replication a commit waits for a standby. When that wait is cut short (a cancel, a lost
 * connection) the commit exists on the primary alone. The repetition finds its work done, writes nothing, and so
 * waits for no standby; an acknowledgement could be undone by a failover. This statement writes a record of its own,
 * and its commit waits until the standby has everything before it.
 */
import type { Runner } from './database.js';
import { sql } from './statement.js';

const writeRecord = sql('replication_barrier')`select pg_logical_emit_message(true, 'drover', '')`;

export async function replicationBarrier(db: Runner): Promise<void> {
  await db.runTexts(writeRecord, []);
}
