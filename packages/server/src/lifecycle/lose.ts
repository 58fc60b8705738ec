/**
 * Sessions whose lease is over are declared dead, and their jobs go back to the queue: running → ready,
 * or → failed once a job has lost its worker LOST_LIMIT times (a job that kills every worker must not
 * cycle through the fleet for ever). Session and jobs change in one statement, guarded by the lease as it
 * is at that moment: a worker that came back in time keeps everything.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_LOST_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';

/** Attempts of one job that may be lost together with their worker. */
export const LOST_LIMIT = 3;

const LOST_ERROR = `json_build_object('name', 'WorkerLostError', 'code', 'lost',
      'message', 'the worker was lost: its lease ran out while it held the job')`;
const WITH_LOST_ATTEMPT = `drover.add_attempt(j.attempts, j.attempt, 'lost', j.started_at, j.session_id, ${LOST_ERROR})`;

const lose = sql('lose')`
with dead as (
  update drover.session s
  set ended_at = now(), ending = 'dead', server_id = null, running = 0,
    last_error = coalesce(s.last_error, 'its lease ran out')
  where s.id = any(array(
    select id
    from drover.session
    where ended_at is null and expires_at < now() - $2::double precision * interval '1 millisecond'
    order by expires_at
    limit $1
    for update skip locked
  ))
  returning s.id
), returned as (
  update drover.job j
  set state = 'ready', session_id = null, started_at = null, lost_attempts = lost_attempts + 1,
    attempts = ${WITH_LOST_ATTEMPT}
  from dead
  where j.session_id = dead.id and j.state = 'running' and j.lost_attempts + 1 < ${LOST_LIMIT}
  returning j.id
), finished as (
  delete from drover.job j
  using dead
  where j.session_id = dead.id and j.state = 'running' and j.lost_attempts + 1 >= ${LOST_LIMIT}
  returning j.*, 'failed'::drover.job_state as ended_state, j.started_at as ended_started_at,
    ${WITH_LOST_ATTEMPT} as ended_attempts,
    null::json as ended_result, ${LOST_ERROR} as ended_error, 0 as wait_ms, 0 as run_ms
), moved as (${INSERT_LOST_INTO_HISTORY}
), counted as (${addToRollup('finished', '$3')}
)
select (select count(*) from dead)::int as sessions, (select count(*) from returned)::int as returned,
  array(select id::text from finished) as failed`;

export type Lost = { sessions: number; returned: number; failed: string[] };

/** Buries up to `limit` sessions whose lease ended more than `graceMs` ago. */
export async function loseExpiredSessions(db: Runner, serverId: string, limit: number, graceMs: number): Promise<Lost> {
  const [row] = await db.run<Lost>(lose, [limit, graceMs, serverId]);
  return row ?? { sessions: 0, returned: 0, failed: [] };
}
