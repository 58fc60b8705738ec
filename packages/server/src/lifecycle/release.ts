/**
 * running → ready, for a batch: a grant that never started is handed back. No attempt is used up, and the
 * job keeps its place in the line. The fence stays where it is, so the grant is void from now on. A held job
 * whose worker came back and says so (unknown → ready) is no longer in doubt: it was not lost after all.
 */
import type { Grant } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { SAME_GRANT } from './same-grant.js';

const release = sql('release')`
with handed_back as (
  select * from json_to_recordset($1) as o(id uuid, fence int)
)
update drover.job j
set state = 'ready', session_id = null, started_at = null, inherited = false, attempt = attempt - 1,
  lost_attempts = lost_attempts - (j.state = 'unknown')::int,
  -- of an unknown job, the last one says that it was lost
  attempts = case when j.state = 'unknown' then j.attempts[:cardinality(j.attempts) - 1] else j.attempts end
from handed_back o
where ${SAME_GRANT} and j.state in ('running', 'unknown')
returning j.id::text as id`;

/** Gives the ids that were released. */
export async function releaseJobs(db: Runner, grants: Grant[]): Promise<string[]> {
  const answer = await db.run<{ id: string }>(release, [JSON.stringify(grants)]);
  return answer.map((row) => row.id);
}
