/**
 * Waits until the possible commit of an earlier try is as durable as the database promises. Call it before a
 * statement that found its work done is acknowledged. The earlier try may be of this server or another one.
 *
 * With synchronous replication a commit waits for a standby. When that wait is cut short (a cancel, a lost
 * connection) the commit exists on the primary alone. The repetition finds its work done, writes nothing, and so
 * waits for no standby; an acknowledgement could be undone by a failover. This statement writes its own record, and
 * its commit waits until the standby has everything before it.
 */
import type { Runner } from './database.js';
import { sql } from './statement.js';

const writeRecord = sql('replication_barrier')`select pg_logical_emit_message(true, 'drover', '')`;

export async function replicationBarrier(db: Runner): Promise<void> {
  await db.runTexts(writeRecord, []);
}
