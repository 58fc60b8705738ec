/** Attempts stay within their limits, by the count of the witness and by the row. */
import { grantsOf, runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import { deadSessions, isLost, LOST_LIMIT } from './losses.js';
import type { Rule } from './rule.js';

export const attemptsKeepLimits: Rule = {
  code: 'S4a',
  promise: 'attempts keep to their limits',
  check(evidence, report) {
    const dead = deadSessions(evidence);
    for (const job of evidence.jobs) {
      const runs = runsOf(evidence, job.id);
      const retries = evidence.ledger.actionsOn(job.id).filter(({ kind }) => kind === 'retry').length;
      const limit = (evidence.ledger.jobs.get(job.id)?.maxAttempts ?? job.maxAttempts) + retries;
      // attempts of a lost worker have their own limit
      const kept = grantsOf(evidence, job.id).filter((grant) => !isLost(evidence, grant, dead));
      const isUsed = (end: string | undefined) => end === 'error' || end === 'abort:timeout';
      const used = kept.filter(({ fence }) => runs.some((run) => run.fence === fence && isUsed(run.end))).length;
      const isRight =
        used <= limit && job.lost <= LOST_LIMIT + retries && job.attempt <= job.maxAttempts + job.lost + retries;
      report.check(isRight, () => {
        const row = `attempt ${job.attempt} of ${job.maxAttempts}, lost ${job.lost}`;
        return `${job.id} (${job.type}, ${row}), ${used} of ${limit} used: ${describeRuns(runs)}`;
      });
    }
  },
};
