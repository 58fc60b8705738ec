/**
 * A person gives a job another attempt: a failed or cancelled one comes back from the history, a waiting
 * or held one starts now. It has at least one attempt left afterwards; its fence goes on from where it was.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { RETURN_FROM_HISTORY_COLUMNS } from './move-to-history.js';

const ONE_MORE_ATTEMPT = 'greatest(max_attempts, attempt - lost_attempts + 1)';

const retryUnfinished = sql('retry_unfinished')`
update drover.job
set state = 'ready', run_at = now(), session_id = null, started_at = null, inherited = false,
  order_key = nextval('drover.job_order'), max_attempts = ${ONE_MORE_ATTEMPT}, cancel_requested_at = null
where id = $1 and state in ('scheduled', 'unknown')
returning id`;

const retryFinished = sql('retry_finished')`
with back as (
  delete from drover.job_history
  where id = $1 and state in ('failed', 'cancelled')
  returning *
)
insert into drover.job (${RETURN_FROM_HISTORY_COLUMNS}, attempts, run_at, state)
select ${RETURN_FROM_HISTORY_COLUMNS.replace('max_attempts', ONE_MORE_ATTEMPT).replace(
  'expires_at',
  // an expiry that has passed would end it again at once
  'case when expires_at > now() then expires_at end',
)}, attempts, now(), 'ready'
from back
returning id`;

/** Gives whether the job was in a state that allows it. */
export async function retryJob(db: Runner, id: string): Promise<boolean> {
  const moved = await db.run(retryUnfinished, [id]);
  if (moved.length > 0) return true;
  return (await db.run(retryFinished, [id])).length > 0;
}
