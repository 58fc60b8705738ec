/** A job whose execution has ended does not run again without a reason that was seen outside. */
import { describeRuns } from '../evidence/witness.js';
import { type Reason, reasonToRepeat } from './repetition.js';
import type { Rule } from './rule.js';

export const repetitionExplained: Rule = {
  code: 'S2r',
  promise: 'a job runs again only for a reason that was seen',
  shows: ['J2'],
  check(evidence, report) {
    const reasons = new Map<Reason, number>();
    for (const [id, runs] of evidence.executions) {
      for (const [index, next] of runs.slice(1).entries()) {
        const run = runs[index];
        if (!run) continue;
        const reason = reasonToRepeat(evidence, run, next.from);
        report.check(reason !== undefined, () => `${id} ran again for no reason: ${describeRuns(runs)}`);
        if (reason !== undefined) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      }
    }
    if (reasons.size > 0) report.note([...reasons].map(([reason, count]) => `${reason}: ${count}`).join(', '));
  },
};
