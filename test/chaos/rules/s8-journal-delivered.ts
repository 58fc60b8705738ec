/**
 * The next process of a folder delivers what the journal contained when the previous process died. The journals are
 * copies that the supervisor made at each death.
 *
 * - A process that was killed leaves a journal, and an outcome is in it soon after its handler ended
 *   (`JOURNAL_LAG_MS`).
 * - An outcome in it of the job's last grant has ended the job, and no later grant exists. Otherwise the lease must
 *   have run out before the next process told of it: the worker was declared dead, and not by a takeover. Such a job
 *   may have been granted again, or have ended without: its expiry passed, it was cancelled, or it had lost too many
 *   workers.
 */
import { blockedMs, blockingOf, runsByInstance } from '../evidence/blocked.js';
import { type Evidence, grantsOf, type Instance, runsOf } from '../evidence/evidence.js';
import { grantKey, type Journal } from '../evidence/journals.js';
import type { Execution } from '../evidence/witness.js';
import { isBrokenForever, ranMs } from '../system/units.js';
import type { Report, Rule } from './rule.js';

/**
 * Time from the end of a handler to its outcome on disk, counted while its event loop could run. Usually some
 * milliseconds; the rest is for a disk that PostgreSQL and six workers share.
 */
export const JOURNAL_LAG_MS = 1000;

export const journalIsDelivered: Rule = {
  code: 'S8',
  promise: 'an outcome in the journal of a dead process is delivered',
  shows: ['J6'],
  check(evidence, report) {
    let undelivered = 0;
    for (const [instance, runs] of runsByInstance(evidence)) {
      if (instance.exitedAt === undefined || instance.ending === 'code 0') continue;
      const journal = evidence.journals.get(instance.key);
      report.check(journal !== undefined, () => `${instance.key} ended with ${instance.ending} and left no journal`);
      if (!journal) continue;
      const blocking = blockingOf(runs);
      for (const run of runs) checkWritten(run, blocking, journal, report);
      if (!isBrokenForever(evidence.units, instance))
        undelivered += checkDelivered(evidence, instance, journal, report);
    }
    report.note(`${undelivered} outcomes were in the journals of dead processes`);
  },
};

/** Handlers of its process that block the event loop delay the journal, too. */
function checkWritten(run: Execution, blocking: readonly Execution[], journal: Journal, report: Report): void {
  const entry = journal.get(grantKey(run.id, run.fence));
  // an entry that is missing was acknowledged before the journal began a new file
  if (run.end === undefined || entry === undefined) return;
  const afterMs = ranMs(run.to, run.instance) - blockedMs({ from: run.to, to: Infinity }, blocking);
  const isWritten = entry.outcome !== undefined || entry.isAcknowledged || run.end === 'abort:lost';
  report.check(isWritten || afterMs <= JOURNAL_LAG_MS, () => {
    return `${run.name} of ${run.id} ended ${afterMs.toFixed(0)} ms before its process died, and is not in its journal`;
  });
}

/** Returns how many outcomes the journal had. */
function checkDelivered(evidence: Evidence, { key }: Instance, journal: Journal, report: Report): number {
  let undelivered = 0;
  for (const [grant, { outcome, isAcknowledged }] of journal) {
    if (isAcknowledged || (outcome !== 'succeeded' && outcome !== 'failed')) continue;
    undelivered += 1;
    const [id = '', fence] = grant.split(' ');
    const last = grantsOf(evidence, id).at(-1);
    const job = evidence.jobById.get(id);
    const hadRunOut = () => leaseRanOut(evidence, id, Number(fence));
    const isRight =
      last?.fence === Number(fence)
        ? job?.state === outcome || job?.state === 'cancelled' || (job?.state === 'failed' && hadRunOut())
        : outcome !== 'succeeded' || hadRunOut();
    report.check(isRight, () => {
      return `the journal of ${key} has ${id} fence ${fence} as ${outcome}; it is ${job?.state} with fence ${last?.fence}`;
    });
  }
  return undelivered;
}

/**
 * Whether the session was declared dead after the execution began. Afterwards it may have come back to life for a
 * short time (a hello of the dead process was on its way), so a takeover may be its last verdict.
 */
function leaseRanOut(evidence: Evidence, id: string, fence: number): boolean {
  const sessionId = grantsOf(evidence, id).find((grant) => grant.fence === fence)?.sessionId;
  const from = runsOf(evidence, id).find((run) => run.fence === fence)?.from ?? 0;
  return evidence.verdicts.some(
    (verdict) => verdict.sessionId === sessionId && !verdict.isTakeover && verdict.seenAt >= from,
  );
}
