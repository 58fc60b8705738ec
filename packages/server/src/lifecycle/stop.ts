/** running → cancelled, for a batch: the worker has stopped the handler after a cancel. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_FINISHED_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';
import { SAME_GRANT } from './same-grant.js';

export type Stop = { id: string; fence: number; runMs: number };

const stop = sql('stop')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, run_ms double precision)
), finished as (
  delete from drover.job j
  using outcome o
  where ${SAME_GRANT} and j.state in ('running', 'unknown')
  returning j.*, o.run_ms,
    'cancelled'::drover.job_state as ended_state,
    now() - o.run_ms * interval '1 millisecond' as ended_started_at,
    drover.add_attempt(j.attempts, j.attempt, 'cancelled', now() - o.run_ms * interval '1 millisecond', j.session_id, null)
      as ended_attempts,
    null::json as ended_result, null::json as ended_error, 0 as wait_ms
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
)
select id::text as id from finished`;

/** Gives the ids that were stopped. */
export async function stopJobs(db: Runner, serverId: string, items: Stop[]): Promise<string[]> {
  const rows = items.map(({ id, fence, runMs }) => ({ id, fence, run_ms: runMs }));
  const answer = await db.run<{ id: string }>(stop, [JSON.stringify(rows), serverId]);
  return answer.map((row) => row.id);
}
