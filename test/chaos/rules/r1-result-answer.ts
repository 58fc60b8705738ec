/** The answer of `result()` is the final result of the job. */
import type { Rule } from './rule.js';

export const resultIsAnswered: Rule = {
  code: 'R1',
  promise: 'result() answers what the job ended with',
  check({ ledger, jobById, endings }, report) {
    for (const { kind, target, ok, answer } of ledger.actions) {
      if (kind !== 'result' || !(ok || answer === 'failed' || answer === 'cancelled')) continue;
      const job = jobById.get(target);
      const isRight = ok ? job?.resultOf === answer : endings.get(target)?.includes(answer) === true;
      report.check(isRight, () => `result() of ${target} answered ${answer}; it is ${job?.state} by ${job?.resultOf}`);
    }
  },
};
