/**
 * `onLost: 'hold'` is absolute: whatever happens to its worker, the job is not run again by itself. It may run again only if
 * the handler itself ended the attempt, was told to stop and gave the job back, or a person asked for it.
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
        // told to stop because others may start it: that must not be so of a job to be held
        if (run.end === 'abort:lost') return false;
        const reason = reasonToRepeat(evidence, run, next.from);
        return reason !== undefined && reason !== 'its process died' && reason !== 'its worker was declared dead';
      });
      report.check(isRight, () => `${id}: ${describeRuns(runs)}`);
    }
  },
};
