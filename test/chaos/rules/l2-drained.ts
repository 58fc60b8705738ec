/** After the load has stopped, all waiting jobs finish in time. */
import type { Rule } from './rule.js';

export const everythingDrains: Rule = {
  code: 'L2',
  promise: 'everything drained in time',
  check({ drained }, report) {
    report.check(drained, () => 'jobs were left when the time was up');
  },
};
