/** unknown → failed, by hand: a person has found out that the job did not do its work. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_FINISHED_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';

const failByHand = sql('fail_by_hand')`
with finished as (
  delete from drover.job
  where id = $1 and state = 'unknown'
  returning *, 'failed'::drover.job_state as ended_state, started_at as ended_started_at, attempts as ended_attempts,
    null::json as ended_result, $3::text::json as ended_error, 0 as wait_ms, 0 as run_ms
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
)
select id::text as id from finished`;

/** Gives whether the job was unknown. */
export async function failUnknownJob(db: Runner, serverId: string, id: string, reason: string): Promise<boolean> {
  const error = { name: 'FailedByHandError', code: 'failed_by_hand', message: reason };
  return (await db.run(failByHand, [id, serverId, JSON.stringify(error)])).length > 0;
}
