/** running → scheduled, for a batch: the handler asked to be run later. No attempt is used up. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, changeOf, runVerb } from './change.js';
import { lockGrants, SAME_GRANT } from './same-grant.js';
import { mayMove, stateAfter } from './states.js';

export type Snooze = { id: string; fence: number; inMs: number };

const snooze = sql('snooze')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, in_ms double precision)
), ${lockGrants('snooze')}
update drover.job j
set state = ${stateAfter('snooze', 'scheduled')}, session_id = null, started_at = null, inherited = false,
  attempt = attempt - 1, run_at = now() + o.in_ms * interval '1 millisecond'
from locked o
where ${SAME_GRANT} and ${mayMove('snooze')}
returning ${changeOf('j', { from: 'o.from_state', dueInMs: 'o.in_ms' })}`;

export function snoozeJobs(db: Runner, items: readonly Snooze[]): Promise<Change[]> {
  const rows = items.map(({ id, fence, inMs }) => ({ id, fence, in_ms: inMs }));
  return runVerb(db, snooze, [JSON.stringify(rows)], { verb: 'snooze', from: 'running', to: 'scheduled' });
}
