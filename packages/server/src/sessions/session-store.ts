/**
 * The sessions in the database: the worker registry that every server reads, and the leases that jobs rest on. How a session is
 * opened is in open-session.
 */
import type { Grant } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { jobsOf } from '../lifecycle/jobs-of-session.js';

const renew = sql('session_renew')`
update drover.session s
set beat_at = now() - b.silent_ms * interval '1 millisecond',
  expires_at = case when b.heard then now() + $3::double precision * interval '1 millisecond' else s.expires_at end,
  missed_beats = b.missed_beats,
  running = b.running, draining = b.draining,
  -- a beat without a complaint: whatever was wrong is over
  last_error = case when b.heard then b.trouble else s.last_error end
from json_to_recordset($1) as b(
  id uuid, heard boolean, silent_ms double precision, missed_beats int, running int, draining boolean, trouble text)
-- "num_nulls": PostgreSQL must not think of the index of all live sessions
where ${byKey('s.id', 'b.id')} and s.server_id = $2 and num_nulls(s.ended_at) = 1
returning s.id::text as id, s.paused`;

const end = sql('session_end')`
with ended as (
  update drover.session
  set ended_at = now(), ending = 'resigned', server_id = null, running = 0
  where id = $1 and server_id = $2 and connection = $3 and ended_at is null
  returning id
)
select j.id::text as id, j.fence
from ended
${jobsOf('ended.id', 'running')}`;

const leave = sql('session_leave')`
update drover.session
set server_id = null, last_error = $4
where id = $1 and server_id = $2 and connection = $3 and ended_at is null`;

export type Beat = {
  id: string;
  /** A beat has come since the last renewal. */
  heard: boolean;
  /** Since the last beat came. */
  silent_ms: number;
  missed_beats: number;
  running: number;
  draining: boolean;
  trouble: string | undefined;
};

/**
 * Renews the leases of the sessions with a beat. Returns those that are still this server's, and whether they are
 * paused.
 */
export async function renewSessions(
  db: Runner,
  serverId: string,
  beats: Beat[],
  leaseMs: number,
): Promise<Map<string, { paused: boolean }>> {
  const rows = await db.run<{ id: string; paused: boolean }>(renew, [JSON.stringify(beats), serverId, leaseMs]);
  return new Map(rows.map((row) => [row.id, row]));
}

/** A session, by one connection of its worker. */
type SessionKey = { id: string; connection: number };

/** The worker leaves permanently. Returns what it still holds, which the caller must release. */
export function endSession(db: Runner, serverId: string, { id, connection }: SessionKey): Promise<Grant[]> {
  return db.run<Grant>(end, [id, serverId, connection]);
}

/** The connection is gone; the session lives on until its lease is over or another server takes it. */
export async function leaveSession(
  db: Runner,
  serverId: string,
  { id, connection }: SessionKey,
  why: string,
): Promise<void> {
  await db.run(leave, [id, serverId, connection, why]);
}
