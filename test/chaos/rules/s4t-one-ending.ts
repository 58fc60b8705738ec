/** A job ends once, plus once for each retry by a person. */
import type { Rule } from './rule.js';

export const jobEndsOnce: Rule = {
  code: 'S4t',
  promise: 'a job ends once',
  shows: ['J2'],
  check({ endings, ledger }, report) {
    for (const [id, states] of endings) {
      const retries = ledger.actionsOn(id).filter(({ kind }) => kind === 'retry').length;
      report.check(states.length <= 1 + retries, () => `${id} ended ${states.length} times: ${states.join(', ')}`);
    }
  },
};
