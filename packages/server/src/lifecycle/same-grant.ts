/**
 * "The row is still at this grant": the condition under which whatever a worker reports may change a job.
 * `o` has the id and the fence that the worker was given, `j` is the job.
 */
import { isSwitchedOff } from '../test-switches.js';

export const SAME_GRANT = isSwitchedOff('fencing') ? 'j.id = o.id' : 'j.id = o.id and j.fence = o.fence';
