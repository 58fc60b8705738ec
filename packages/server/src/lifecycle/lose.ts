/**
 * A running job whose worker is lost. By the job's policy it goes back to the queue (running → ready) or is held
 * (running → unknown) until its worker's journal or a person says how it ended. A job that has lost its worker
 * LOST_LIMIT times fails, because a job that kills every worker must not cycle through the fleet.
 *
 * A worker counts as lost when its lease is over by the database's clock, or when its successor found the job in the
 * journal of a process that died. Sessions and jobs change in one statement, guarded by the current lease, so a
 * worker that came back in time keeps everything.
 *
 * When no server could renew (see drover.beacon), expiry proves nothing: leases count as renewed at the end of the gap.
 */
import type { Grant } from '@drover/protocol';
import { isSwitchedOff } from '@drover/protocol/test-points';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, runVerb, toChanges } from './change.js';
import { finish, selectEnded } from './finish.js';
import { heldBy, jobsOf } from './jobs-of-session.js';
import { mayMove, stateAfter, stateLiteral } from './states.js';
import { withAttempt } from './with-attempt.js';

/** Attempts of one job that may be lost together with their worker. */
export const LOST_LIMIT = 3;

/**
 * An inherited job is in the journal of a dead process. A `hold` job is recorded there before its handler is called.
 */
const LOST_ERROR = `json_build_object('name', 'WorkerLostError', 'code', 'lost', 'message', case when j.inherited
      then 'the process of the worker ended while it held the job; by its journal the handler had begun, was just about to, or had ended'
      else 'the worker was lost while it held the job' end)`;
const WITH_LOST_ATTEMPT = withAttempt('lost', 'j.started_at', LOST_ERROR);

const SAME_RUNNING_GRANT = `${byKey('j.id', 'lost.id')} and j.fence = lost.fence and ${mayMove('lose')}`;
/** A successor takes over a grant unchanged. */
const OF_SAME_SESSION = `${SAME_RUNNING_GRANT} and ${heldBy('lost.session_id')}`;

/** The three endings of a lost job, for the grants in the CTE `lost` that match the condition. */
const loseJobs = (condition = SAME_RUNNING_GRANT) => `
returned as (
  update drover.job j
  set state = ${stateAfter('lose', 'ready')}, session_id = null, started_at = null, inherited = false,
    lost_attempts = lost_attempts + 1, attempts = ${WITH_LOST_ATTEMPT}
  from lost
  where ${condition} and not j.hold_if_lost and j.lost_attempts + 1 < ${LOST_LIMIT}
  returning j.*
), held as (
  -- the session stays noted: only its worker's late outcome may still end the job
  update drover.job j
  set state = ${stateAfter('lose', 'unknown')}, lost_attempts = lost_attempts + 1, attempts = ${WITH_LOST_ATTEMPT}
  from lost
  where ${condition} and j.hold_if_lost
  returning j.*
), ${finish({
  verb: 'lose',
  using: 'lost',
  where: `${condition} and not j.hold_if_lost and j.lost_attempts + 1 >= ${LOST_LIMIT}`,
  to: stateAfter('lose', 'failed'),
  attempts: WITH_LOST_ATTEMPT,
  lostAttempts: 'j.lost_attempts + 1',
  error: LOST_ERROR,
})}`;

const LOST = { returned: {}, held: { to: 'held.state' } };

/**
 * No lease counts as expired before all leases had a full period to be renewed after the last gap. A frozen pulse is
 * a gap whose end is not recorded yet: right after an outage this may run before the next pulse.
 */
const NO_RECENT_GAP = `(${isSwitchedOff('beacon')} or (
        select gap_ended_at < now() - ($3::double precision + $4) * interval '1 millisecond'
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
    where ended_at is null and expires_at < now() - $3::double precision * interval '1 millisecond'
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
), ${loseJobs(OF_SAME_SESSION)}, changed as (
${selectEnded('lose', LOST)}
)
select (select count(*) from lost_session), changed.*
-- a row also without changes
from (select) always
left join changed on true`;

const loseOfGrants = sql('lose_grants')`
with lost as (
  select * from json_to_recordset($1) as g(id uuid, fence int)
), ${loseJobs()}
${selectEnded('lose', LOST)}`;

/**
 * Jobs that are running while their session has ended: they were granted after the statement that ended it had read
 * its jobs. The lease was over by then, or the process gone, so they were not started and go back without a lost
 * attempt. That is certain if the grant is younger than the end of the session, or if it is a `hold` job, because the
 * start of every other such job is in a journal (and an inherited one was started). The rest may have been started by
 * a process that died before its journal said so. They count as lost, or a job that kills its process would never
 * reach its limit. A session that comes back meanwhile waits for this statement, or this statement finds it alive.
 */
const loseOfEnded = sql('lose_orphans')`
with candidate as materialized (
  select j.id, j.fence, j.session_id, s.id is null as is_session_gone,
    s.id is not null and not j.inherited and (j.hold_if_lost or j.started_at > s.ended_at) as is_unstarted
  from drover.job j
  left join drover.session s on ${byKey('s.id', 'j.session_id')}
  -- the holder is what leads to the index of held jobs
  where j.session_id is not null and ${mayMove('lose')} and (s.id is null or s.ended_at is not null)
    -- what a resigning worker leaves is just being released
    and coalesce(s.ended_at, j.started_at) < now() - $1::double precision * interval '1 millisecond'
  limit $3
), ended_session as materialized (
  select id from drover.session
  where id = any(array(select session_id from candidate)) and ended_at is not null
  for update
), orphan as (
  -- "is true": so that the ended ones are hashed, and not compared one by one
  select * from candidate c where c.is_session_gone or (c.session_id in (select id from ended_session)) is true
), lost as (
  select id, fence, session_id from orphan where not is_unstarted
), unstarted as (
  select id, fence, session_id from orphan where is_unstarted
), released as (
  update drover.job j
  set state = ${stateAfter('release', 'ready')}, session_id = null, started_at = null, attempt = attempt - 1
  from unstarted u
  where ${byKey('j.id', 'u.id')} and j.fence = u.fence and j.state = ${stateLiteral('running')} and ${heldBy('u.session_id')}
  returning j.*
), ${loseJobs(OF_SAME_SESSION)}
${selectEnded('lose', { ...LOST, released: { verb: "'release'" } })}`;

const USUAL = { verb: 'lose', from: 'running', to: 'ready' } as const;

export type LossLimits = {
  graceMs: number;
  leaseMs: number;
  /** An older pulse of the cluster counts as frozen. */
  maxPulseAgeMs: number;
};

/** Declares up to `limit` sessions dead whose lease ended more than `graceMs` ago. */
export async function loseExpiredSessions(
  db: Runner,
  serverId: string,
  limit: number,
  { graceMs, leaseMs, maxPulseAgeMs }: LossLimits,
): Promise<{ sessions: number; changes: Change[] }> {
  const rows = await db.runTexts(loseSessions, [
    ...[String(limit), serverId],
    ...[graceMs, leaseMs, maxPulseAgeMs].map(String),
  ]);
  const changed = rows.map(([, ...row]) => row).filter(([id]) => id !== null);
  return { sessions: Number(rows[0]?.[0]), changes: toChanges(changed, USUAL) };
}

/** Handles the report of a successor that these jobs died with their process. */
export function loseGrants(db: Runner, serverId: string, grants: readonly Grant[]): Promise<Change[]> {
  const rows = grants.map(({ id, fence }) => ({ id, fence }));
  return runVerb(db, loseOfGrants, [JSON.stringify(rows), serverId], USUAL);
}

/** Repairs up to `limit` jobs whose session ended more than `settledMs` ago. */
export function loseOrphans(db: Runner, serverId: string, settledMs: number, limit: number): Promise<Change[]> {
  return runVerb(db, loseOfEnded, [String(settledMs), serverId, String(limit)], USUAL);
}
