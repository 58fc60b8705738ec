/**
 * A job does not start after its expiry, and one that could not start before it fails without having run. Servers
 * check for expired jobs every second, so a start within `NOTICED_MS` is allowed. A later one is excused if the
 * worker, a server or the database was broken right before, or the clock of the database had jumped.
 */
import { type Evidence, type Execution, overlapsSpan, runsOf } from '../evidence/evidence.js';
import { describeRuns } from '../evidence/witness.js';
import type { Rule } from './rule.js';
import { hasClockJumped } from './t1-delay.js';

const NOTICED_MS = 2000;

export const expiryIsKept: Rule = {
  code: 'T2',
  promise: 'a job does not start after its expiry',
  shows: ['D11'],
  check(evidence, report) {
    let excused = 0;
    for (const { id, sentAt, expiresMs, delayMs = 0 } of evidence.ledger.jobs.values()) {
      const job = evidence.jobById.get(id);
      if (expiresMs === undefined || !job) continue;
      const runs = runsOf(evidence, id);
      const late = runs.filter(({ from }) => from > sentAt + expiresMs + NOTICED_MS);
      const unexcused = late.filter((run) => !couldNotBeTold(evidence, run));
      excused += late.length - unexcused.length;
      const isHopeless = delayMs > expiresMs && !hasClockJumped(evidence, sentAt, sentAt + delayMs + NOTICED_MS);
      const isRight = unexcused.length === 0 && (!isHopeless || (runs.length === 0 && job.errorCode === 'expired'));
      report.check(isRight, () => `${id} (expires after ${expiresMs} ms) is ${job.state}: ${describeRuns(runs)}`);
    }
    if (excused > 0) report.note(`${excused} began later, where no server could tell the worker`);
  },
};

/** The worker, a server or the database was broken right before. */
function couldNotBeTold(evidence: Evidence, { instance, from }: Execution): boolean {
  const troubles = evidence.units
    .filter(({ name, role }) => role === 'server' || name === instance.unit)
    .flatMap((unit) => unit.troubles);
  return [...troubles, ...evidence.databaseTroubles].some((trouble) => overlapsSpan(trouble, from - NOTICED_MS, from));
}
