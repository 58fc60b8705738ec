/**
 * Jobs past their expiry, by the database's clock. A queued one fails at once; a running one is requested to stop, and the
 * worker's answer ends it as failed.
 */
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, runVerb, stopRequest } from './change.js';
import { finish, selectEnded } from './finish.js';
import { mayMove, stateAfter, stateLiteral } from './states.js';
import { wasCancelled } from './stop-reason.js';

const EXPIRED_ERROR = `json_build_object('name', 'ExpiredError', 'code', 'expired', 'message',
      'the job had not finished when it expired at ' || drover.iso(expires_at))`;

const IS_QUEUED = mayMove('expire', 'state');
const RUNNING = stateLiteral('running');
const HAS_EXPIRED = `expires_at <= now() and (${IS_QUEUED} or (state = ${RUNNING} and cancel_requested_at is null))`;

const ENDING = finish({
  verb: 'expire',
  using: 'found',
  where: byKey('j.id', 'found.id'),
  stateBefore: 'from_state',
  to: stateAfter('expire', 'failed'),
  error: EXPIRED_ERROR,
});

const expire = sql('expire')`
with found as materialized (
  select id, state as from_state
  from drover.job
  where ${HAS_EXPIRED}
  order by expires_at
  limit $1
  for update skip locked
), ${ENDING}, requested as (
  update drover.job j
  set cancel_requested_at = now()
  from found
  where ${byKey('j.id', 'found.id')} and from_state = ${RUNNING}
  returning j.*
)
${selectEnded('expire', { requested: stopRequest('requested', 'expire', 'expired') })}`;

const toEnd = sql('anything_to_end')`
select exists (select from drover.job where ${HAS_EXPIRED})
  or exists (
    select from drover.job as returned
    where cancel_requested_at is not null and session_id is null and ${IS_QUEUED} and ${wasCancelled('returned')}
  ) as found`;

/** Whether anything has expired, or was cancelled on its way back from a worker: usually not. */
export async function isAnythingToEnd(db: Runner): Promise<boolean> {
  const [row] = await db.run<{ found: boolean }>(toEnd);
  return row?.found ?? false;
}

/** Fails the queued ones and requests the stop of the running ones, up to `limit` jobs together. */
export function expireJobs(db: Runner, serverId: string, limit: number): Promise<Change[]> {
  return runVerb(db, expire, [String(limit), serverId], { verb: 'expire', from: 'ready', to: 'failed' });
}
