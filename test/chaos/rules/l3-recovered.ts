/**
 * After the faults every server answers, every worker is registered and completes a job, and all processes stop on
 * request.
 */
import type { Rule } from './rule.js';

export const everyoneRecovers: Rule = {
  code: 'L3',
  promise: 'after the faults everyone answers, works and stops when told',
  shows: ['J1', 'V6'],
  check({ recovery, instances }, report) {
    report.check(recovery.length > 0, () => 'recovery was not checked');
    for (const { what, ok } of recovery) report.check(ok, () => what);
    for (const { key, isStopOverdue } of instances) {
      report.check(!isStopOverdue, () => `${key} did not stop when it was told to, and was killed`);
    }
  },
};
