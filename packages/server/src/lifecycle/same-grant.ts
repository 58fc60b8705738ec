/**
 * "The row is still at this grant": the condition under which a worker's report may change a job. `o` has the id and
 * the fence that the worker was given, `j` is the job.
 */
import type { JobVerb } from '@drover/protocol';
import { isSwitchedOff } from '@drover/protocol/test-points';
import { byKey } from '../db/by-key.js';
import { mayMove } from './states.js';

const SAME_JOB = byKey('j.id', 'o.id');

export const SAME_GRANT = isSwitchedOff('fencing') ? SAME_JOB : `${SAME_JOB} and j.fence = o.fence`;

/**
 * The CTE `locked`: the rows of the CTE `outcome` that the verb may write, with the state before as `from_state`. The
 * rows are locked, so the state cannot change before the update, which cannot return the old state itself.
 */
export function lockGrants(verb: JobVerb, columns = ''): string {
  return `locked as materialized (
  select o.*, j.state as from_state${columns}
  from outcome o
  join drover.job j on ${SAME_GRANT} and ${mayMove(verb)}
  for update of j
)`;
}
