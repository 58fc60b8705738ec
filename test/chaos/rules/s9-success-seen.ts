/** Every success has an execution that ended well according to the witness. */
import { runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import type { Rule } from './rule.js';

export const successWasSeen: Rule = {
  code: 'S9',
  promise: 'a success was seen by the witness',
  check(evidence, report) {
    for (const job of evidence.jobs) {
      if (job.state !== 'succeeded') continue;
      const run = evidence.executionByName.get(job.resultOf ?? '');
      report.check(run?.id === job.id && run.end === 'ok', () => {
        return `${job.id} (${job.type}) succeeded by ${job.resultOf}: ${describeRuns(runsOf(evidence, job.id))}`;
      });
    }
  },
};
