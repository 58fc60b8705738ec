/**
 * Compares what the database says a session holds with what its worker knows. A running job that was never sent to its worker
 * is released, and no attempt is used up.
 *
 * Safe only while no claim for these sessions is under way. What was sent is in `grants` before it is sent, and stays there
 * until its outcome is durable; what is just being inserted is in `arriving`; but what a claim grants is known only from its
 * answer. It is also limited to sessions that are still this server's by the database: a session that has moved while this
 * server was frozen gets jobs from another server.
 */
import type { Grant } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Change } from '../lifecycle/change.js';
import { jobsOf } from '../lifecycle/jobs-of-session.js';
import { releaseJobs } from '../lifecycle/release.js';
import { holds, type Session } from './session.js';

const heldBySessions = sql('held_by')`
select j.session_id::text as "sessionId", j.id::text as id, j.fence
from json_to_recordset($1) as own(id uuid, connection int)
join drover.session s on ${byKey('s.id', 'own.id')} and s.connection = own.connection and s.server_id = $2
${jobsOf('s.id', 'running')}`;

type Held = Grant & { sessionId: string };

/** Releases the grants that the sessions' workers do not know. */
export async function releaseUnknownGrants(
  db: Runner,
  serverId: string,
  sessions: readonly Session[],
): Promise<Change[]> {
  const byId = new Map(sessions.map((session) => [session.id, session]));
  const own = sessions.map(({ id, connection }) => ({ id, connection }));
  const held = await db.run<Held>(heldBySessions, [JSON.stringify(own), serverId]);
  const unknown = held.filter((grant) => {
    const session = byId.get(grant.sessionId);
    return session && !session.closed && !holds(session, grant) && !session.arriving.has(grant.id);
  });
  return unknown.length === 0 ? [] : releaseJobs(db, unknown);
}
