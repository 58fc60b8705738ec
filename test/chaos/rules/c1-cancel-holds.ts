/**
 * A cancel that was acknowledged holds: a job that was cancelled does not start afterwards and stays cancelled; one
 * that was running is told to stop, and ends as cancelled, or succeeded if its handler returned first. No job is
 * cancelled without a request.
 */
import { runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import type { Rule } from './rule.js';

export const cancelHolds: Rule = {
  code: 'C1',
  promise: 'a cancelled job does not start, and nothing else is cancelled',
  shows: ['V4'],
  check(evidence, report) {
    for (const { kind, target, ok, answer, answeredAt } of evidence.ledger.actions) {
      const job = evidence.jobById.get(target);
      if (kind !== 'cancel' || !ok || !job) continue;
      const runs = runsOf(evidence, target);
      const isRight =
        answer === 'cancelled'
          ? job.state === 'cancelled' && runs.every(({ from }) => from <= answeredAt)
          : job.state === 'cancelled' || job.state === 'succeeded';
      report.check(
        isRight,
        () => `${target} was ${answer} after the cancel and is ${job.state}: ${describeRuns(runs)}`,
      );
    }
    for (const job of evidence.jobs) {
      if (job.state !== 'cancelled') continue;
      const wasAsked = evidence.ledger.actionsOn(job.id).some(({ kind }) => kind === 'cancel');
      report.check(wasAsked, () => `${job.id} (${job.type}) is cancelled, and no one asked for it`);
    }
  },
};
