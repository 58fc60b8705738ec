/** Every execution belongs to an existing job. */
import { describeRuns } from '../evidence/witness.js';
import type { Rule } from './rule.js';

export const executionIsAJob: Rule = {
  code: 'S4e',
  promise: 'whatever ran is a job',
  check({ executions, jobById }, report) {
    for (const [id, runs] of executions) {
      report.check(jobById.has(id), () => `${id} ran and does not exist: ${describeRuns(runs)}`);
    }
  },
};
