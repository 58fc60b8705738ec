/**
 * A running job whose worker is lost. By the job's policy it goes back to the queue (running → ready) or is
 * held (running → unknown) until its worker's journal or a person says how it ended; and a job that has lost
 * its worker LOST_LIMIT times fails, because a job that kills every worker must not cycle through the fleet.
 *
 * A worker counts as lost when its lease is over by the database's clock, or when its successor found the job
 * in the journal of a process that died. Sessions and jobs change in one statement, guarded by the lease as it
 * is at that moment: a worker that came back in time keeps everything.
 *
 * When nobody *could* renew (see migration 0001, beacon), expiry proves nothing: leases count as renewed at
 * the end of the gap.
 */
import type { Grant } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { isSwitchedOff } from '../test-switches.js';
import { heldBy, jobsOf } from './jobs-of-session.js';
import { INSERT_LOST_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';

/** Attempts of one job that may be lost together with their worker. */
export const LOST_LIMIT = 3;

/** Of an inherited job the journal of a dead process has told; of one to be held, durably before its handler was called. */
const LOST_ERROR = `json_build_object('name', 'WorkerLostError', 'code', 'lost', 'message', case when j.inherited
      then 'the process of the worker ended while it held the job; by its journal the handler had begun, was just about to, or had ended'
      else 'the worker was lost while it held the job' end)`;
const WITH_LOST_ATTEMPT = `drover.add_attempt(j.attempts, j.attempt, 'lost', j.started_at, j.session_id, ${LOST_ERROR})`;

const SAME_RUNNING_GRANT = `${byKey('j.id', 'lost.id')} and j.fence = lost.fence and j.state = 'running'`;
/** A successor takes a grant over as it is. */
const OF_SAME_SESSION = `${SAME_RUNNING_GRANT} and ${heldBy('lost.session_id')}`;

/** The three ways a lost job goes, for the grants in `lost` that are still running and fit the condition. */
const loseJobs = (serverId: '$2' | '$3', condition = SAME_RUNNING_GRANT) => `
returned as (
  update drover.job j
  set state = 'ready', session_id = null, started_at = null, inherited = false, lost_attempts = lost_attempts + 1,
    attempts = ${WITH_LOST_ATTEMPT}
  from lost
  where ${condition} and not j.hold_if_lost and j.lost_attempts + 1 < ${LOST_LIMIT}
  returning j.id
), held as (
  -- the session stays noted: only its worker's late outcome may still settle the job
  update drover.job j
  set state = 'unknown', lost_attempts = lost_attempts + 1, attempts = ${WITH_LOST_ATTEMPT}
  from lost
  where ${condition} and j.hold_if_lost
  returning j.id
), finished as (
  delete from drover.job j
  using lost
  where ${condition} and not j.hold_if_lost and j.lost_attempts + 1 >= ${LOST_LIMIT}
  returning j.*, 'failed'::drover.job_state as ended_state, j.started_at as ended_started_at,
    ${WITH_LOST_ATTEMPT} as ended_attempts,
    null::json as ended_result, ${LOST_ERROR} as ended_error, 0 as wait_ms, 0 as run_ms
), moved as (${INSERT_LOST_INTO_HISTORY}
), counted as (${addToRollup('finished', serverId)}
)`;

const COUNTS = `
  (select count(*) from returned)::int as returned, (select count(*) from held)::int as held,
  array(select id::text from finished) as failed`;

/**
 * No lease counts as over before all had a lease's time to be renewed after the last gap. A pulse that stands
 * still is a gap whose end nobody has noted yet: right after an outage this may come before the next pulse.
 */
const NO_RECENT_GAP = `(${isSwitchedOff('beacon')} or (
        select gap_ended_at < now() - ($2::double precision + $4) * interval '1 millisecond'
          and at > now() - $5::double precision * interval '1 millisecond'
        from drover.beacon
      ))`;

const loseSessions = sql('lose_sessions')`
with lost_session as (
  update drover.session s
  set ended_at = now(), ending = 'dead', server_id = null, running = 0,
    last_error = coalesce(s.last_error, 'its lease ran out')
  where s.id = any(array(
    select id
    from drover.session
    where ended_at is null and expires_at < now() - $2::double precision * interval '1 millisecond'
      and ${NO_RECENT_GAP}
    order by expires_at
    limit $1
    for update skip locked
  ))
  returning s.id
), lost as (
  select j.id, j.fence, s.id as session_id
  from lost_session s
  ${jobsOf('s.id', 'running')}
), ${loseJobs('$3', OF_SAME_SESSION)}
select (select count(*) from lost_session)::int as sessions, ${COUNTS}`;

const loseOfGrants = sql('lose_grants')`
with lost as (
  select * from json_to_recordset($1) as g(id uuid, fence int)
), ${loseJobs('$2')}
select array(select id::text from returned) || array(select id::text from held) || array(select id::text from finished) as changed,
  ${COUNTS}`;

/**
 * Jobs that are running while their session has ended: granted after those that ended it had looked. The lease was
 * over by then, or the process gone, so they were not started, and go back unharmed. That is certain of one whose grant
 * is younger than the end of the session, and of one that is to be held, because the start of every other such job is
 * in a journal (and an inherited one was started). The rest may have been started by a process that died before its
 * journal said so, and counts as lost, or a job that kills its process would never come to its limit. A session that
 * comes back meanwhile waits for this, or this finds it alive.
 */
const loseOfEnded = sql('lose_orphans')`
with candidate as materialized (
  select j.id, j.fence, j.session_id, s.id is null as is_session_gone,
    s.id is not null and not j.inherited and (j.hold_if_lost or j.started_at > s.ended_at) as is_unstarted
  from drover.job j
  left join drover.session s on ${byKey('s.id', 'j.session_id')}
  -- the holder is what leads to the index of held jobs
  where j.session_id is not null and j.state = 'running' and (s.id is null or s.ended_at is not null)
    -- what a resigning worker leaves is just being released
    and coalesce(s.ended_at, j.started_at) < now() - $1::double precision * interval '1 millisecond'
  limit $3
), ended as materialized (
  select id from drover.session
  where id = any(array(select session_id from candidate)) and ended_at is not null
  for update
), orphan as (
  -- "is true": so that the ended ones are hashed, and not compared one by one
  select * from candidate c where c.is_session_gone or (c.session_id in (select id from ended)) is true
), lost as (
  select id, fence, session_id from orphan where not is_unstarted
), unstarted as (
  select id, fence, session_id from orphan where is_unstarted
), released as (
  update drover.job j
  set state = 'ready', session_id = null, started_at = null, attempt = attempt - 1
  from unstarted u
  where ${byKey('j.id', 'u.id')} and j.fence = u.fence and j.state = 'running' and ${heldBy('u.session_id')}
  returning j.id
), ${loseJobs('$2', OF_SAME_SESSION)}
select (select count(*) from released)::int as released, ${COUNTS}`;

export type Lost = { returned: number; held: number; failed: string[] };

export type LossLimits = {
  graceMs: number;
  leaseMs: number;
  /** An older pulse of the cluster stands still. */
  maxPulseAgeMs: number;
};

/** Buries up to `limit` sessions whose lease ended more than `graceMs` ago. */
export async function loseExpiredSessions(
  db: Runner,
  serverId: string,
  limit: number,
  { graceMs, leaseMs, maxPulseAgeMs }: LossLimits,
): Promise<Lost & { sessions: number }> {
  const values = [limit, graceMs, serverId, leaseMs, maxPulseAgeMs];
  const [row] = await db.run<Lost & { sessions: number }>(loseSessions, values);
  return row ?? { sessions: 0, returned: 0, held: 0, failed: [] };
}

/** The worker's successor says that these died with it. */
export async function loseGrants(db: Runner, serverId: string, grants: Grant[]): Promise<Lost & { changed: string[] }> {
  const rows = grants.map(({ id, fence }) => ({ id, fence }));
  const [row] = await db.run<Lost & { changed: string[] }>(loseOfGrants, [JSON.stringify(rows), serverId]);
  return row ?? { changed: [], returned: 0, held: 0, failed: [] };
}

/** Mends up to `limit` jobs whose session ended more than `settledMs` ago. */
export async function loseOrphans(
  db: Runner,
  serverId: string,
  settledMs: number,
  limit: number,
): Promise<Lost & { released: number }> {
  const [row] = await db.run<Lost & { released: number }>(loseOfEnded, [settledMs, serverId, limit]);
  return row ?? { released: 0, returned: 0, held: 0, failed: [] };
}
