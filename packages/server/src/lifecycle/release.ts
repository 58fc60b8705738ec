/**
 * running → ready, for a batch: a grant that never started is handed back, or one that the shutdown of its worker has
 * stopped, which people see among the attempts. No attempt is used up, and the job keeps its place in its lane. The fence stays the same, and the grant is void from now on. A held job whose worker came
 * back and hands it back (unknown → ready) was not lost after all.
 */
import type { Grant } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, changeOf, runVerb } from './change.js';
import { lockGrants, SAME_GRANT } from './same-grant.js';
import { mayMove, stateAfter, stateLiteral } from './states.js';
import { withAttempt } from './with-attempt.js';

const WAS_UNKNOWN = `o.from_state = ${stateLiteral('unknown')}`;

/** The last attempt of an unknown job says that it was lost. */
const ATTEMPTS = `case when ${WAS_UNKNOWN} then j.attempts[:cardinality(j.attempts) - 1] else j.attempts end`;
const STARTED_AT = "now() - o.run_ms * interval '1 millisecond'";

const release = sql('release')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, run_ms double precision)
), ${lockGrants('release')}
update drover.job j
set state = ${stateAfter('release', 'ready')}, session_id = null, started_at = null, inherited = false,
  attempt = attempt - 1, lost_attempts = lost_attempts - (${WAS_UNKNOWN})::int,
  attempts = case
    when o.run_ms is null then ${ATTEMPTS}
    else ${withAttempt('released', STARTED_AT, 'null', ATTEMPTS)}
  end
from locked o
where ${SAME_GRANT} and ${mayMove('release')}
returning ${changeOf('j', { from: 'o.from_state' })}`;

/** `runMs`: how long its handler ran; absent: it was not called. */
export type Released = Grant & { runMs?: number | undefined };

export function releaseJobs(db: Runner, grants: readonly Released[]): Promise<Change[]> {
  const rows = grants.map(({ id, fence, runMs }) => ({ id, fence, run_ms: runMs }));
  return runVerb(db, release, [JSON.stringify(rows)], { verb: 'release', from: 'running', to: 'ready' });
}
