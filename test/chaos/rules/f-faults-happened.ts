/** The faults of the plan really happened: a tool that failed, or a fault without effect, proves nothing. */
import type { Rule } from './rule.js';

/** A fault is left out if its target was just restarting, or no other server was healthy. */
const MAX_LEFT_OUT_SHARE = 0.25;

export const faultsHappened: Rule = {
  code: 'F',
  promise: 'the faults of the plan happened',
  check({ faults }, report) {
    for (const { fault, outcome, why } of faults) {
      report.check(outcome !== 'failed', () => `${fault}: ${why}`);
    }
    const leftOut = faults.filter(({ outcome }) => outcome === 'left out');
    report.check(leftOut.length <= Math.max(1, MAX_LEFT_OUT_SHARE * faults.length), () => {
      return `${leftOut.length} of ${faults.length} faults were left out, such as ${leftOut[0]?.fault}: ${leftOut[0]?.why}`;
    });
    if (leftOut.length > 0) report.note(`${leftOut.length} of ${faults.length} were left out`);
  },
};
