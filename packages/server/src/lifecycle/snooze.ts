/** running → scheduled, for a batch: the handler asked to be run later. No attempt is used up. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { SAME_GRANT } from './same-grant.js';

export type Snooze = { id: string; fence: number; inMs: number };

const snooze = sql('snooze')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, in_ms double precision)
)
update drover.job j
set state = 'scheduled', session_id = null, started_at = null, inherited = false, attempt = attempt - 1,
  run_at = now() + o.in_ms * interval '1 millisecond'
from outcome o
where ${SAME_GRANT} and j.state in ('running', 'unknown')
returning j.id::text as id`;

/** Gives the ids that were snoozed. */
export async function snoozeJobs(db: Runner, items: Snooze[]): Promise<string[]> {
  const rows = items.map(({ id, fence, inMs }) => ({ id, fence, in_ms: inMs }));
  const answer = await db.run<{ id: string }>(snooze, [JSON.stringify(rows)]);
  return answer.map((row) => row.id);
}
