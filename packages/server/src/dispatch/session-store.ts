/** The sessions in the database: the worker registry that every server reads and the leases that jobs rest on. */
import type { Grant, Hello } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { heldBy, jobsOf } from '../lifecycle/jobs-of-session.js';
import { loseGrants } from '../lifecycle/lose.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseJobs } from '../lifecycle/release.js';

const open = sql('session_open')`
insert into drover.session as s
  (id, server_id, connection, name, host, pid, sdk, types, queues, slots, ignores_pause, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now() + $12::double precision * interval '1 millisecond')
on conflict (id) do update
set server_id = excluded.server_id, connection = excluded.connection, types = excluded.types, queues = excluded.queues, slots = excluded.slots,
  ignores_pause = excluded.ignores_pause, beat_at = now(), expires_at = excluded.expires_at, missed_beats = 0,
  draining = false,
  -- a worker that was given up for dead and comes back is alive; its jobs are not its own any more
  ended_at = null, ending = null
-- the same number: this statement, repeated after its answer was lost
where s.connection <= excluded.connection
returning paused`;

/**
 * A process that died is followed by one with the same journal: what the journal names goes over to it. The
 * host must be the same, so a worker cannot take what was never in its folder by naming a stranger's session.
 * `inherited` is of this grant alone: every verb by which the job leaves it unfinished takes the mark away.
 */
const inherit = sql('session_inherit')`
with previous as (
  update drover.session
  set ended_at = coalesce(ended_at, now()), ending = coalesce(ending, 'dead'), server_id = null, running = 0,
    last_error = coalesce(last_error, 'its process ended and was followed by another')
  where id = any($2::uuid[]) and id <> $1 and host = $3
  returning id
)
update drover.job j
set session_id = $1, inherited = true
from json_to_recordset($4) as g(id uuid, fence int), previous p
where ${byKey('j.id', 'g.id')} and j.fence = g.fence and ${heldBy('p.id')} and j.state in ('running', 'unknown')`;

/**
 * What a journal does not name. The start of a job that is to be held is durable in the journal before its handler
 * runs, so one that a whole journal does not name was never started; unless it was inherited, and the journal has told of its end before. Of other
 * jobs that is not known: they stay, and count as lost, or a job that kills its process at once would never come
 * to the limit of losses.
 */
const neverStarted = sql('session_never_started')`
with previous as (
  select id from drover.session where id = any($1::uuid[]) and id <> $2 and host = $3
)
select j.id::text as id, j.fence
from previous p
${jobsOf('p.id', 'running')}
where j.hold_if_lost and not j.inherited
union all
select j.id::text, j.fence
from previous p
${jobsOf('p.id', 'unknown')}
where not j.inherited`;

/**
 * An unknown job was granted to this process, so that it says whether it has it; or it was inherited, and counts
 * only if it is named: the worker forgets it as soon as it has told that it died with its process.
 */
const held = sql('session_held')`
with own as (
  -- what a newer connection has been given since is not for this one to judge
  select id from drover.session where id = $1 and connection = $3
)
select j.id::text as id, j.fence
from own
${jobsOf('own.id', 'running')}
union all
select j.id::text, j.fence
from own
${jobsOf('own.id', 'unknown')}
where not j.inherited or j.id = any($2::uuid[])
union all
-- says that it is still its own
select null, null from own`;

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

export type OpenedSession = {
  /** Every grant that is the worker's own. */
  held: Grant[];
  paused: boolean;
};

/** Registers a worker or takes it over from another server; undefined if a newer connection of it has come before. */
export async function openSession(
  db: Runner,
  serverId: string,
  hello: Hello,
  leaseMs: number,
  publish: Publish,
): Promise<OpenedSession | undefined> {
  const { sessionId, connection, name, host, pid, sdk, types, queues, slots, holds, previousSessions } = hello;
  const identity = [sessionId, serverId, connection, name, host, pid, sdk, types, queues ?? null, slots];
  const [row] = await db.run<{ paused: boolean }>(open, [...identity, hello.ignorePause ?? false, leaseMs]);
  if (!row) return undefined;
  if (previousSessions?.length) {
    await db.run(inherit, [sessionId, previousSessions, host, JSON.stringify(holds)]);
    const unnamed = await db.run<Grant>(neverStarted, [previousSessions, sessionId, host]);
    // a journal that could not be read whole proves nothing by what it does not name
    const isUncertain = hello.isJournalIncomplete === true;
    publish(await (isUncertain ? loseGrants(db, serverId, unnamed) : releaseJobs(db, unnamed)));
  }
  // in a statement of its own: what was granted or lost until the take-over must be seen
  const rows = await db.run<Grant | { id: null }>(held, [sessionId, holds.map((grant) => grant.id), connection]);
  if (rows.length === 0) return undefined;
  return { held: rows.filter((grant): grant is Grant => grant.id !== null), paused: row.paused };
}

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

/** Renews the leases of the sessions that were heard of. Gives those that are still this server's, and if paused. */
export async function renewSessions(
  db: Runner,
  serverId: string,
  beats: Beat[],
  leaseMs: number,
): Promise<Map<string, { paused: boolean }>> {
  const rows = await db.run<{ id: string; paused: boolean }>(renew, [JSON.stringify(beats), serverId, leaseMs]);
  return new Map(rows.map((row) => [row.id, row]));
}

/** A session as one connection of its worker has it. */
type SessionKey = { id: string; connection: number };

/** The worker leaves for good. Gives what it still holds, which is to be released. */
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
