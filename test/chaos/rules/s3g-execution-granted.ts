/**
 * Every execution has its own grant: the same fence, the same attempt, granted to the same process, and run once.
 * This also covers what the audit misses: a grant that was rolled back must not be run.
 */
import { grantsOf, processKey } from '../evidence/evidence.js';
import { describeRuns, type Execution } from '../evidence/witness.js';
import type { Rule } from './rule.js';

export const executionIsGranted: Rule = {
  code: 'S3g',
  promise: 'every execution has a grant of its own',
  shows: ['D8'],
  check(evidence, report) {
    for (const [id, runs] of evidence.executions) {
      const grants = grantsOf(evidence, id);
      const isGranted = ({ fence, attempt, instance }: Execution) =>
        grants.some(
          (grant) => grant.fence === fence && grant.attempt === attempt && processKey(grant) === processKey(instance),
        );
      const isOnce = new Set(runs.map(({ fence }) => fence)).size === runs.length;
      report.check(isOnce && runs.every(isGranted), () => {
        const list = grants.map((grant) => `attempt ${grant.attempt} fence ${grant.fence} ${processKey(grant)}`);
        return `${id} was granted [${list.join(', ')}] and ran [${describeRuns(runs)}]`;
      });
    }
  },
};
