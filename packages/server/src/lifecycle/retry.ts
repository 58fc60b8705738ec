/**
 * Gives a job another attempt by request: a failed or cancelled job is moved back from the history, a waiting or held
 * one starts now. Afterwards it has at least one attempt left. Its fence continues to grow.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, changeOf, runVerb } from './change.js';
import { KEPT_ON_RETURN } from './finish.js';
import { mayMove, stateAfter } from './states.js';

const ONE_MORE_ATTEMPT = 'greatest(max_attempts, attempt - lost_attempts + 1)';
const IS_RETRYABLE = mayMove('retry', 'state');

const retryUnfinished = sql('retry_unfinished')`
with found as materialized (
  select id, state as from_state
  from drover.job
  where id = $1 and ${IS_RETRYABLE}
  for update
)
update drover.job j
set state = ${stateAfter('retry', 'ready')}, run_at = now(), session_id = null, started_at = null, inherited = false,
  order_key = nextval('drover.job_order'), max_attempts = ${ONE_MORE_ATTEMPT}, cancel_requested_at = null
from found
where j.id = found.id
returning ${changeOf('j', { from: 'from_state' })}`;

const retryFinished = sql('retry_finished')`
with back as (
  delete from drover.job_history
  where id = $1 and ${IS_RETRYABLE}
  returning *
), returned as (
  insert into drover.job (${KEPT_ON_RETURN.join(', ')}, max_attempts, expires_at, run_at, state)
  select ${KEPT_ON_RETURN.join(', ')}, ${ONE_MORE_ATTEMPT},
    -- an expiry that has passed would end it again at once
    case when expires_at > now() then expires_at end, now(), ${stateAfter('retry', 'ready')}
  from back
  returning *
), lane as (
  -- it may have been deleted since the job finished
  insert into drover.lane (queue, type)
  select queue, type
  from back
  where not exists (select from drover.lane l where l.type = back.type and l.queue = back.queue)
)
select ${changeOf('returned', { from: 'back.state' })}
from returned
join back on back.id = returned.id`;

/** Changes nothing unless the job is in a state that allows it. */
export async function retryJob(db: Runner, id: string): Promise<Change[]> {
  const usual = { verb: 'retry', from: 'failed', to: 'ready' } as const;
  const changes = await runVerb(db, retryUnfinished, [id], usual);
  return changes.length > 0 ? changes : runVerb(db, retryFinished, [id], usual);
}
