/**
 * A worker is declared dead only for its own fault: its process ended or was frozen, it was cut off, or its clock
 * jumped over its lease. Faults of servers, of the database or of all servers together are not a reason: the worker
 * moves to a server that works, and a cluster that could not renew leases waits until all workers had the time to
 * come back.
 */
import { type Evidence, overlapsSpan, processKey, type Verdict } from '../evidence/evidence.js';
import type { Rule } from './rule.js';

/** Faults of a worker that stop its beats, or its trust in its own clock. A slow network does not. */
const STOPS_BEATS = ['kill', 'leave', 'pause', 'cut off', 'clock', 'broken forever'];

export const deadByOwnFault: Rule = {
  code: 'S10',
  promise: 'a worker is declared dead only for a fault of its own',
  shows: ['J4'],
  check(evidence, report) {
    for (const verdict of evidence.verdicts) {
      report.check(isGone(evidence, verdict) || hadOwnFault(evidence, verdict), () => {
        const server = evidence.units.find(({ url, role }) => role === 'server' && url === verdict.server);
        const troubles = server?.troubles.filter(({ from, to }) =>
          overlapsSpan({ from, to }, ...windowOf(evidence, verdict)),
        );
        const about = troubles?.map(({ what }) => what).join(', ') || 'no trouble';
        return `${verdict.unit} (${verdict.pid}) was declared dead in good health; its server ${server?.name} had ${about}`;
      });
    }
  },
};

function isGone({ instanceByProcess }: Evidence, verdict: Verdict): boolean {
  const exitedAt = instanceByProcess.get(processKey(verdict))?.exitedAt;
  return exitedAt !== undefined && exitedAt <= verdict.seenAt;
}

function hadOwnFault(evidence: Evidence, verdict: Verdict): boolean {
  const unit = evidence.units.find(({ name }) => name === verdict.unit);
  const [start, end] = windowOf(evidence, verdict);
  return (unit?.troubles ?? []).some(
    (trouble) => STOPS_BEATS.some((what) => trouble.what.startsWith(what)) && overlapsSpan(trouble, start, end),
  );
}

/** A fault that ended earlier left the worker the time to come back. */
function windowOf({ verdictMs }: Evidence, { seenAt }: Verdict): [start: number, end: number] {
  return [seenAt - verdictMs, seenAt];
}
