/** A failure has a reason that was seen outside. The error names its reason; the row's own counters are not used. */
import { type Evidence, grantsOf, type JobRecord, runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import { deadSessions, isLost, LOST_LIMIT } from './losses.js';
import type { Rule } from './rule.js';
import { executionNamedBy } from './thrown-error.js';

export const failureWasSeen: Rule = {
  code: 'S9f',
  promise: 'a failure has a reason that was seen',
  check(evidence, report) {
    const dead = deadSessions(evidence);
    for (const job of evidence.jobs) {
      if (job.state !== 'failed') continue;
      report.check(hasReason(evidence, job, dead), () => {
        const error = `${job.errorCode}: ${job.errorMessage}`;
        return `${job.id} (${job.type}) failed with ${error}: ${describeRuns(runsOf(evidence, job.id))}`;
      });
    }
  },
};

function hasReason(evidence: Evidence, job: JobRecord, dead: ReadonlySet<string>): boolean {
  const runs = runsOf(evidence, job.id);
  const sent = evidence.ledger.jobs.get(job.id);
  switch (job.errorCode) {
    case 'lost':
      return grantsOf(evidence, job.id).filter((grant) => isLost(evidence, grant, dead)).length >= LOST_LIMIT;
    case 'expired':
      return sent?.expiresMs !== undefined;
    case 'timeout':
      return sent?.timeoutMs !== undefined && runs.at(-1)?.end === 'abort:timeout';
    default: {
      const thrown = evidence.executionByName.get(executionNamedBy(job.errorMessage) ?? '');
      return thrown?.id === job.id && thrown.end === 'error';
    }
  }
}
