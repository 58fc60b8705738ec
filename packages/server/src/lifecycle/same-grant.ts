/**
 * "The row is still at this grant": the condition under which whatever a worker reports may change a job.
 * `o` has the id and the fence that the worker was given, `j` is the job.
 */
import { byKey } from '../db/by-key.js';
import { isSwitchedOff } from '../test-switches.js';

const SAME_JOB = byKey('j.id', 'o.id');

export const SAME_GRANT = isSwitchedOff('fencing') ? SAME_JOB : `${SAME_JOB} and j.fence = o.fence`;
