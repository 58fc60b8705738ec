/**
 * The reconciler repairs impossible rows. Without faults there are none. Each repair follows soon after an event that
 * can cause it and was seen outside; a missing lane has no such cause.
 */
import { type Evidence, overlapsSpan, type Repair } from '../evidence/evidence.js';
import type { Span } from '../system/units.js';
import type { Rule } from './rule.js';

/** A server compares its grants every beat, and looks for jobs of ended sessions every six. */
const NOTICED_MS = 5000;
const LONGEST_OUTAGE_MS = 15_000;

export const repairsExplained: Rule = {
  code: 'D10',
  promise: 'each repair of the reconciler follows from a fault',
  shows: ['D10'],
  check(evidence, report) {
    const counts = new Map<string, number>();
    for (const repair of evidence.repairs) {
      counts.set(repair.kind, (counts.get(repair.kind) ?? 0) + repair.count);
      const causes = causesOf(evidence, repair);
      const start = repair.seenAt - NOTICED_MS - goneMs(evidence, repair);
      report.check(
        causes.some((trouble) => overlapsSpan(trouble, start, repair.seenAt)),
        () => `${repair.count} × ${repair.kind} repaired by ${repair.address} without a fault before it`,
      );
    }
    report.note([...counts].map(([kind, count]) => `${kind}: ${count}`).join(', ') || 'nothing was repaired');
  },
};

/** No repair is possible while the database is unavailable. */
function goneMs({ databaseTroubles }: Evidence, { seenAt }: Repair): number {
  const before = databaseTroubles.filter(({ from, to }) => from <= seenAt && to >= seenAt - LONGEST_OUTAGE_MS);
  return before.reduce((sum, { from, to }) => sum + Math.min(to, seenAt) - from, 0);
}

/** Beside a hostile peer beats may be late, and a worker then moves to another server at any time. */
function movesBeside({ assault }: Evidence): readonly Span[] {
  return assault ? [{ from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }] : [];
}

function causesOf(evidence: Evidence, { kind }: Repair): readonly Span[] {
  const { units, databaseTroubles, instances, verdicts } = evidence;
  switch (kind) {
    // a claim whose answer was lost, or that happened while its worker moved to the server that repaired it
    case 'unknown_to_worker': {
      const ofServers = units.filter(({ role }) => role === 'server').flatMap(({ troubles }) => troubles);
      // a worker that was cut off moves, too
      const cuts = units.flatMap(({ troubles }) => troubles.filter(({ what }) => what.startsWith('cut off')));
      return [...ofServers, ...cuts, ...databaseTroubles, ...movesBeside(evidence)];
    }
    // a claim for a session that was just ending
    case 'orphaned_job': {
      const ends = instances
        .filter(({ role }) => role === 'worker')
        .map(({ exitedAt }) => exitedAt ?? Number.POSITIVE_INFINITY);
      return [...ends, ...verdicts.map(({ seenAt }) => seenAt)].map((at) => ({ from: at, to: at }));
    }
    default:
      return [];
  }
}
