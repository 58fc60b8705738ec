/** The sessions in the database: the worker registry that every server reads and the leases that jobs rest on. */
import type { Grant, Hello } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const open = sql('session_open')`
insert into drover.session (id, server_id, name, host, pid, sdk, types, queues, slots, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10::double precision * interval '1 millisecond')
on conflict (id) do update
set server_id = excluded.server_id, types = excluded.types, queues = excluded.queues, slots = excluded.slots,
  beat_at = now(), expires_at = excluded.expires_at, missed_beats = 0, draining = false,
  -- a worker that was given up for dead and comes back is alive; its jobs are not its own any more
  ended_at = null, ending = null`;

const held = sql('session_held')`
select id::text as id, fence
from drover.job
where session_id = $1 and state = 'running'
union all
select id::text, fence
from drover.job
where id = any($2::uuid[]) and session_id = $1 and state = 'unknown'`;

const renew = sql('session_renew')`
update drover.session s
set beat_at = case when b.heard then now() else s.beat_at end,
  expires_at = case when b.heard then now() + $3::double precision * interval '1 millisecond' else s.expires_at end,
  missed_beats = case when b.heard then 0 else s.missed_beats + 1 end,
  running = b.running, draining = b.draining
from json_to_recordset($1) as b(id uuid, heard boolean, running int, draining boolean)
where s.id = b.id and s.server_id = $2 and s.ended_at is null
returning s.id::text as id`;

const end = sql('session_end')`
with ended as (
  update drover.session
  set ended_at = now(), ending = 'resigned', server_id = null, running = 0
  where id = $1 and server_id = $2 and ended_at is null
  returning id
)
select j.id::text as id, j.fence
from drover.job j
join ended on j.session_id = ended.id
where j.state = 'running'`;

const leave = sql('session_leave')`
update drover.session
set server_id = null, last_error = $3
where id = $1 and server_id = $2 and ended_at is null`;

/** Registers a worker or takes it over from another server, and gives every grant that is its own. */
export async function openSession(db: Runner, serverId: string, hello: Hello, leaseMs: number): Promise<Grant[]> {
  const { sessionId, name, host, pid, sdk, types, queues, slots, holds } = hello;
  await db.run(open, [sessionId, serverId, name, host, pid, sdk, types, queues ?? null, slots, leaseMs]);
  // in a statement of its own: what was granted or lost until the take-over must be seen
  return db.run<Grant>(held, [sessionId, holds.map((grant) => grant.id)]);
}

export type Beat = { id: string; heard: boolean; running: number; draining: boolean };

/** Renews the leases of the sessions that were heard of. Gives the ids that are still this server's. */
export async function renewSessions(
  db: Runner,
  serverId: string,
  beats: Beat[],
  leaseMs: number,
): Promise<Set<string>> {
  const rows = await db.run<{ id: string }>(renew, [JSON.stringify(beats), serverId, leaseMs]);
  return new Set(rows.map((row) => row.id));
}

/** The worker leaves for good. Gives what it still holds, which is to be released. */
export function endSession(db: Runner, serverId: string, sessionId: string): Promise<Grant[]> {
  return db.run<Grant>(end, [sessionId, serverId]);
}

/** The connection is gone; the session lives on until its lease is over or another server takes it. */
export async function leaveSession(db: Runner, serverId: string, sessionId: string, why: string): Promise<void> {
  await db.run(leave, [sessionId, serverId, why]);
}
