/**
 * A grant that did not reach its worker uses up no attempt. Starts are counted by the witness. A grant that was never
 * started may count only if its worker was lost before it could report that, because it cannot be distinguished from
 * a started one.
 */
import { type Evidence, type Grant, grantsOf, type JobRecord, runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import { deadSessions, isLost } from './losses.js';
import type { Rule } from './rule.js';

export const undeliveredUsesNoAttempt: Rule = {
  code: 'D9',
  promise: 'every attempt was started, or lost with its worker',
  shows: ['D9'],
  check(evidence, report) {
    const dead = deadSessions(evidence);
    let lostUnstarted = 0;
    for (const job of evidence.jobs) {
      const started = new Set(runsOf(evidence, job.id).map(({ fence }) => fence));
      const grants = grantsOf(evidence, job.id);
      const unstarted = grants.filter((grant, index) => {
        return !started.has(grant.fence) && usedAttempt(evidence, job, grant, grants[index + 1]);
      });
      const unexplained = unstarted.filter((grant) => !isLost(evidence, grant, dead));
      lostUnstarted += unstarted.length - unexplained.length;
      report.check(unexplained.length === 0, () => {
        const fences = unexplained.map(({ fence, attempt, unit }) => `fence ${fence} (attempt ${attempt}, ${unit})`);
        return `${job.id} (${job.state}): ${fences.join(', ')} used up an attempt: ${describeRuns(runsOf(evidence, job.id))}`;
      });
    }
    if (lostUnstarted > 0) report.note(`${lostUnstarted} were lost with their worker before they were started`);
  },
};

/** The next grant of the job has a higher number, or there was none and the job kept this one. */
function usedAttempt({ ledger }: Evidence, job: JobRecord, grant: Grant, next: Grant | undefined): boolean {
  if (next !== undefined) return next.attempt > grant.attempt;
  const wasCalledOff = job.state === 'cancelled' || job.errorCode === 'expired';
  // a cancel by a person, or the expiry, may happen while it is on its way
  if (wasCalledOff || ledger.actionsOn(job.id).some(({ kind }) => kind === 'cancel')) return false;
  return job.attempt >= grant.attempt;
}
