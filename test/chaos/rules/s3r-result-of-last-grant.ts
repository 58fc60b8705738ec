/**
 * The outcome that ended a job came from its last grant, by fence. Result and error name the execution that produced
 * them, and the witness knows its fence, so a stale outcome of an earlier grant with the same attempt number is
 * found.
 */
import { grantsOf, runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import type { Rule } from './rule.js';
import { executionNamedBy } from './thrown-error.js';

export const resultIsOfLastGrant: Rule = {
  code: 'S3r',
  promise: 'the outcome of a job is of its last grant',
  shows: ['J2'],
  check(evidence, report) {
    for (const job of evidence.jobs) {
      const name = job.state === 'succeeded' ? job.resultOf : executionNamedBy(job.errorMessage);
      const execution = name === null ? undefined : evidence.executionByName.get(name);
      if (execution === undefined) continue;
      const last = grantsOf(evidence, job.id).at(-1);
      const isOfLast = execution.fence === last?.fence && execution.fence === job.fence;
      report.check(isOfLast, () => {
        const runs = describeRuns(runsOf(evidence, job.id));
        return `${job.id} ended with fence ${execution.fence}, its last grant is ${last?.fence}: ${runs}`;
      });
    }
  },
};
