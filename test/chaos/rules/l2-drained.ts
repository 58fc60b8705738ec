/** With the load over, everything that waits is done in time. */
import type { Rule } from './rule.js';

export const everythingDrains: Rule = {
  code: 'L2',
  promise: 'everything drained in time',
  check({ drained }, report) {
    report.check(drained, () => 'jobs were left when the time was up');
  },
};
