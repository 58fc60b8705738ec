/**
 * running → ready, for a batch: a grant that never started is handed back. No attempt is used up, and the job keeps
 * its place in its lane. The fence stays the same, and the grant is void from now on. A held job whose worker came
 * back and hands it back (unknown → ready) was not lost after all.
 */
import type { Grant } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, changeOf, runVerb } from './change.js';
import { lockGrants, SAME_GRANT } from './same-grant.js';
import { mayMove, stateAfter, stateLiteral } from './states.js';

const WAS_UNKNOWN = `o.from_state = ${stateLiteral('unknown')}`;

const release = sql('release')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int)
), ${lockGrants('release')}
update drover.job j
set state = ${stateAfter('release', 'ready')}, session_id = null, started_at = null, inherited = false,
  attempt = attempt - 1, lost_attempts = lost_attempts - (${WAS_UNKNOWN})::int,
  -- the last attempt of an unknown job says that it was lost
  attempts = case when ${WAS_UNKNOWN} then j.attempts[:cardinality(j.attempts) - 1] else j.attempts end
from locked o
where ${SAME_GRANT} and ${mayMove('release')}
returning ${changeOf('j', { from: 'o.from_state' })}`;

export function releaseJobs(db: Runner, grants: readonly Grant[]): Promise<Change[]> {
  const rows = grants.map(({ id, fence }) => ({ id, fence }));
  return runVerb(db, release, [JSON.stringify(rows)], { verb: 'release', from: 'running', to: 'ready' });
}
