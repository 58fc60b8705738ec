/**
 * Opens a worker's session in one transaction: registers the worker or takes it over from another server, transfers
 * the jobs that its journal names of earlier processes, ends or hands back the rest, and reads what it holds. A
 * server or a connection that dies in between leaves everything as it was, and the worker's next hello does it all.
 *
 * Lock order: the session, its previous sessions, their jobs. Others that lock several of these (the renewal of
 * leases, reports of outcomes) can meet it in a deadlock; the one that PostgreSQL rolls back is run again.
 */
import type { Grant, Hello } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner, TransactionRunner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Change } from '../lifecycle/change.js';
import { heldBy, jobsOf } from '../lifecycle/jobs-of-session.js';
import { loseGrants } from '../lifecycle/lose.js';
import { releaseJobs } from '../lifecycle/release.js';
import { hashOfKey, notProven, type SessionProof } from './session-proof.js';

const open = sql('session_open')`
insert into drover.session as s
  (id, server_id, connection, name, host, pid, sdk, types, definition_hashes, queues, slots, ignores_pause, resume_key_hash,
    credential_proof, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, decode($13, 'hex'), decode($14, 'hex'),
  now() + $15::double precision * interval '1 millisecond')
on conflict (id) do update
set server_id = excluded.server_id, connection = excluded.connection, types = excluded.types,
  definition_hashes = excluded.definition_hashes, queues = excluded.queues, slots = excluded.slots,
  ignores_pause = excluded.ignores_pause, beat_at = now(), expires_at = excluded.expires_at, missed_beats = 0,
  draining = false,
  -- a worker that was declared dead and comes back is alive; its jobs are not its own any more
  ended_at = null, ending = null
-- the same number: this hello again, after its answer was lost
where s.connection <= excluded.connection
  and s.resume_key_hash = excluded.resume_key_hash and s.credential_proof = excluded.credential_proof
returning paused`;

/** A session that was entered as ended (see endPrevious) has no credential: the key alone shows that it was the caller's. */
const isProven = sql('session_is_proven')`
select resume_key_hash = decode($2, 'hex') and coalesce(credential_proof = decode($3, 'hex'), true) as proven
from drover.session
where id = $1`;

/** Higher than any connection number of a worker (an int). */
const NO_CONNECTION_AFTER = 2147483647;

/**
 * Ends the sessions of the processes that had this journal before, for good: no hello of theirs is accepted any more. A
 * frozen database may commit the hello of a dead process after that of its successor, and the late one would take back
 * what the successor has inherited. A session that is not registered yet is therefore entered as ended. Its resume key must
 * be the right one, so a worker cannot take what was never in its folder by naming a stranger's session. The token may be
 * another one: a restarted worker may have a new token.
 *
 * The order of the ids avoids deadlocks between two successors.
 */
const endPrevious = sql('session_end_previous')`
insert into drover.session as s
  (id, resume_key_hash, connection, name, host, pid, sdk, types, queues, slots, expires_at, ended_at, ending, last_error)
select previous.id, previous.key_hash, ${String(NO_CONNECTION_AFTER)}, own.name, own.host, own.pid, own.sdk, own.types, own.queues, own.slots, now(),
  now(), 'dead', 'its process ended before it was registered, and was followed by another'
from (
  select distinct id, decode(key, 'hex') as key_hash from unnest($2::uuid[], $3::text[]) as named(id, key) order by id
) previous, drover.session own
where own.id = $1
order by previous.id
on conflict (id) do update
set connection = excluded.connection, server_id = null, running = 0, ended_at = coalesce(s.ended_at, now()),
  ending = coalesce(s.ending, 'dead'),
  last_error = coalesce(s.last_error, 'its process ended and was followed by another')
where s.resume_key_hash = excluded.resume_key_hash
returning id::text`;

/**
 * A process that died is followed by one with the same journal, which takes over what the journal names. A separate statement,
 * so that it sees what a hello that was committed just before has inherited. `inherited` belongs to this grant alone: every verb
 * that ends the grant and not the job clears it.
 */
const inherit = sql('session_inherit')`
update drover.job j
set session_id = $1, inherited = true
from json_to_recordset($3) as g(id uuid, fence int), unnest($2::uuid[]) as p(id)
where ${byKey('j.id', 'g.id')} and j.fence = g.fence and ${heldBy('p.id')} and j.state in ('running', 'unknown')`;

/**
 * Jobs that a journal does not name. The start of a `hold` job is durable in the journal before its handler runs, so
 * one that a complete journal does not name was never started, unless it was inherited and the journal has recorded
 * its end before. For other jobs that is unknown: they stay, and count as lost. Otherwise a job that kills its
 * process at once would never reach the limit of losses.
 */
const neverStarted = sql('session_never_started')`
select j.id::text as id, j.fence
from unnest($1::uuid[]) as p(id)
${jobsOf('p.id', 'running')}
where j.hold_if_lost and not j.inherited
union all
select j.id::text, j.fence
from unnest($1::uuid[]) as p(id)
${jobsOf('p.id', 'unknown')}
where not j.inherited`;

/**
 * A separate statement, so that it sees what was granted or lost until the takeover. An unknown job was granted to
 * this process, so the process says whether it has it. If the job was inherited it counts only if it is named: the
 * worker forgets it as soon as it has told that it died with its process.
 */
const held = sql('session_held')`
with own as (
  select $1::uuid as id
)
select j.id::text as id, j.fence
from own
${jobsOf('own.id', 'running')}
union all
select j.id::text, j.fence
from own
${jobsOf('own.id', 'unknown')}
where not j.inherited or j.id = any($2::uuid[])`;

export type OpenedSession = {
  /** The grants that are the worker's own: held by the database, and named by the worker. */
  held: Grant[];
  paused: boolean;
  /** What the opening changed; to be published. */
  changes: Change[];
};

/**
 * Undefined if a newer connection of the worker, or a process that followed it, has come before. Throws forbidden for a session
 * that is not proven.
 */
export function openSession(
  db: TransactionRunner,
  serverId: string,
  hello: Hello,
  leaseMs: number,
  proof: SessionProof,
  /** The hash of the definition of each type of the hello. */
  hashes: readonly (string | null)[] = [],
): Promise<OpenedSession | undefined> {
  return db.transaction(async (tx) => {
    const row = await takeOver(tx, serverId, hello, leaseMs, proof, hashes);
    if (!row) return undefined;
    const inherited = await inheritJobs(tx, serverId, hello);
    const { own, undelivered } = await readHeld(tx, hello);
    const released = undelivered.length > 0 ? await releaseJobs(tx, undelivered) : [];
    return { held: own, paused: row.paused, changes: [...inherited, ...released] };
  });
}

async function takeOver(
  tx: Runner,
  serverId: string,
  hello: Hello,
  leaseMs: number,
  { keyHash, credentialProof }: SessionProof,
  hashes: readonly (string | null)[],
): Promise<{ paused: boolean } | undefined> {
  const { sessionId, connection, name, host, pid, sdk, types, queues = null, slots, ignorePause = false } = hello;
  const identity = [sessionId, serverId, connection, name, host, pid, sdk, types, hashes, queues, slots];
  const [row] = await tx.run<{ paused: boolean }>(open, [...identity, ignorePause, keyHash, credentialProof, leaseMs]);
  if (row) return row;
  const [known] = await tx.run<{ proven: boolean | null }>(isProven, [sessionId, keyHash, credentialProof]);
  if (known && known.proven !== true) throw notProven(sessionId);
  return undefined;
}

async function inheritJobs(tx: Runner, serverId: string, hello: Hello): Promise<Change[]> {
  const { sessionId, previousSessions = [], holds } = hello;
  if (previousSessions.length === 0) return [];
  const named = previousSessions.filter(({ id }) => id !== sessionId);
  const keys = named.map(({ resumeKey }) => hashOfKey(resumeKey));
  const ended = await tx.run<{ id: string }>(endPrevious, [sessionId, named.map(({ id }) => id), keys]);
  const previous = ended.map(({ id }) => id);
  const foreign = named.find(({ id }) => !previous.includes(id));
  if (foreign) throw notProven(foreign.id);
  await tx.run(inherit, [sessionId, previous, JSON.stringify(holds)]);
  const unnamed = await tx.run<Grant>(neverStarted, [previous]);
  // a journal that could not be read whole proves nothing by what it does not name
  return hello.isJournalIncomplete === true ? loseGrants(tx, serverId, unnamed) : releaseJobs(tx, unnamed);
}

/**
 * By id and fence: a worker may have a newer grant of a job whose older outcome is not acknowledged yet. What it does not name
 * was granted by a server that could not deliver it any more.
 */
async function readHeld(tx: Runner, { sessionId, holds }: Hello): Promise<{ own: Grant[]; undelivered: Grant[] }> {
  const grants = await tx.run<Grant>(held, [sessionId, holds.map((grant) => grant.id)]);
  const named = new Set(holds.map(keyOf));
  return {
    own: grants.filter((grant) => named.has(keyOf(grant))),
    undelivered: grants.filter((grant) => !named.has(keyOf(grant))),
  };
}

function keyOf({ id, fence }: Grant): string {
  return `${id} ${fence}`;
}
