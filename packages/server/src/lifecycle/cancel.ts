/**
 * Cancelling by request. A job that is not running ends at once; for a running one the request is noted in its row, and the
 * server that serves its worker passes it on (see sessions/pass-on-cancels).
 */
import type { JobState } from '@drover/protocol';
import { plainArray } from '../db/array-text.js';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, runVerb, stopRequest } from './change.js';
import { finish, selectEnded } from './finish.js';
import { mayMove, stateAfter, stateLiteral } from './states.js';
import { wasCancelled } from './stop-reason.js';

const USUAL = { verb: 'cancel', from: 'ready', to: 'cancelled' } as const;
const CANCELLED = stateAfter('cancel', 'cancelled');

/**
 * The state decides between the two ways, so it is read with a lock: a concurrent claim is seen or waits. The guards
 * use the locked state, because `j` is first compared as it was before what the lock waited for.
 */
const cancel = sql('cancel')`
with found as materialized (
  select id, state as from_state
  from drover.job
  where id = any($1::uuid[])
  for update
), ${finish({ verb: 'cancel', using: 'found', where: byKey('j.id', 'found.id'), stateBefore: 'from_state', to: CANCELLED })}
, requested as (
  update drover.job j
  set cancel_requested_at = coalesce(cancel_requested_at, now())
  from found
  where ${byKey('j.id', 'found.id')} and from_state = ${stateLiteral('running')}
  returning j.*
)
${selectEnded('cancel', { requested: stopRequest('requested', 'cancel', 'cancelled') })}`;

/** Jobs that came back from a worker while a cancel was under way. Those that expired are ended by `expire`. */
const cancelReturned = sql('cancel_returned')`
with ${finish({
  verb: 'cancel',
  where: `j.id = any(array(
    select id
    from drover.job as returned
    -- without a holder: that part of the index of held jobs is usually empty
    where cancel_requested_at is not null and session_id is null and ${mayMove('cancel', 'state')}
      and ${wasCancelled('returned')}
    limit $1
    for update skip locked
  ))`,
  to: CANCELLED,
})}
${selectEnded('cancel')}`;

const stateOf = sql('state_of')`
select state::text as state from drover.job where id = $1
union all
select state::text from drover.job_history where id = $1
limit 1`;

/** Cancels what is not running and requests the stop of what is. Ids without a change are finished or do not exist. */
export function cancelJobs(db: Runner, serverId: string, ids: readonly string[]): Promise<Change[]> {
  return runVerb(db, cancel, [plainArray(ids), serverId], USUAL);
}

/** Ends up to `limit` jobs that came back while a cancel was under way. */
export function cancelReturnedJobs(db: Runner, serverId: string, limit: number): Promise<Change[]> {
  return runVerb(db, cancelReturned, [String(limit), serverId], USUAL);
}

/** The state of a job wherever it is, or undefined if there is no such job. */
export async function jobState(db: Runner, id: string): Promise<JobState | undefined> {
  const [row] = await db.run<{ state: JobState }>(stateOf, [id]);
  return row?.state;
}
