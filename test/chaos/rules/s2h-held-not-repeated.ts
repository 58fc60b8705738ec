/**
 * `onLost: 'hold'` is absolute: whatever happens to its worker, the job is not run again by itself. It may run again
 * only if the handler itself ended the attempt, was told to stop and handed the job back, or a person requested it.
 */
import { describeRuns } from '../evidence/witness.js';
import { reasonToRepeat } from './repetition.js';
import type { Rule } from './rule.js';

export const heldIsNotRepeated: Rule = {
  code: 'S2h',
  promise: 'a job to be held is not run again by itself',
  shows: ['J5'],
  check(evidence, report) {
    for (const [id, runs] of evidence.executions) {
      const isHeld = evidence.ledger.jobs.get(id)?.holds ?? evidence.jobById.get(id)?.holds ?? false;
      if (!isHeld) continue;
      const isRight = runs.slice(1).every((next, index) => {
        const run = runs[index];
        if (!run) return false;
        // told to stop because others may start it, which must not happen to a `hold` job
        if (run.end === 'abort:lost') return false;
        const reason = reasonToRepeat(evidence, run, next.from);
        return reason !== undefined && reason !== 'its process died' && reason !== 'its worker was declared dead';
      });
      report.check(isRight, () => `${id}: ${describeRuns(runs)}`);
    }
  },
};
