/** running → cancelled, for a batch: the worker has stopped the handler after a cancel. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, runVerb } from './change.js';
import { finish, selectEnded } from './finish.js';
import { SAME_GRANT } from './same-grant.js';
import { stateAfter } from './states.js';
import { withAttempt } from './with-attempt.js';

export type Stop = { id: string; fence: number; runMs: number };

const STARTED_AT = "now() - o.run_ms * interval '1 millisecond'";

const ENDING = finish({
  verb: 'stop',
  using: 'outcome o',
  where: SAME_GRANT,
  to: stateAfter('stop', 'cancelled'),
  startedAt: STARTED_AT,
  attempts: withAttempt('cancelled', STARTED_AT, 'null'),
  runMs: 'o.run_ms',
});

const stop = sql('stop')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, run_ms double precision)
), ${ENDING}
${selectEnded('stop')}`;

export function stopJobs(db: Runner, serverId: string, items: readonly Stop[]): Promise<Change[]> {
  const rows = items.map(({ id, fence, runMs }) => ({ id, fence, run_ms: runMs }));
  return runVerb(db, stop, [JSON.stringify(rows), serverId], { verb: 'stop', from: 'running', to: 'cancelled' });
}
