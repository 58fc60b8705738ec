/**
 * No two executions of a job run at the same time. A frozen process does not run.
 *
 * One excuse: after a pause a process needs a short time to detect that its lease is over, which no lease can
 * prevent. The worker checks 60 times per lease, here every 50 ms; the rest of `THAW_MS` is for a busy machine, and
 * the longest overlap is reported. Only a pause that took most of the lease is an excuse, and only if the earlier
 * execution began before it and the later one after its start.
 */
import { describeRuns, type Execution } from '../evidence/witness.js';
import type { Span } from '../system/units.js';
import type { Rule } from './rule.js';

const THAW_MS = 500;
const BLAMED_SHARE = 0.5;

export const onePlace: Rule = {
  code: 'S2',
  promise: 'no two executions of a job overlap',
  shows: ['D5', 'V1'],
  check({ executions, leaseMs }, report) {
    let excused = 0;
    let longest = 0;
    for (const [id, runs] of executions) {
      const found = overlaps(runs, leaseMs);
      for (const { ms } of found.filter(({ isAfterPause }) => isAfterPause)) {
        excused += 1;
        longest = Math.max(longest, ms);
      }
      const real = found.find(({ isAfterPause }) => !isAfterPause);
      report.check(real === undefined, () => `${id}: ${real?.ms.toFixed(0)} ms of ${describeRuns(runs)}`);
    }
    if (excused > 0) {
      report.note(
        `${excused} more within ${THAW_MS} ms after a pause of the process, the longest ${longest.toFixed(0)} ms`,
      );
    }
  },
};

type Overlap = { ms: number; isAfterPause: boolean };

function overlaps(runs: readonly Execution[], leaseMs: number): Overlap[] {
  const found: Overlap[] = [];
  for (const [index, earlier] of runs.entries()) {
    for (const later of runs.slice(index + 1)) {
      if (later.from >= earlier.to) continue;
      const common = intersect(activeSpans(earlier), activeSpans(later));
      const ms = common.reduce((sum, span) => sum + span.to - span.from, 0);
      if (ms <= 0) continue;
      found.push({ ms, isAfterPause: common.every((span) => isJustAfterPause(span, earlier, later, leaseMs)) });
    }
  }
  return found;
}

function activeSpans({ from, to, instance }: Execution): Span[] {
  let spans: Span[] = [{ from, to }];
  for (const pause of instance.pauses) {
    spans = spans
      .flatMap((span) => [
        { from: span.from, to: Math.min(span.to, pause.from) },
        { from: Math.max(span.from, pause.to), to: span.to },
      ])
      .filter((span) => span.to > span.from);
  }
  return spans;
}

function intersect(some: Span[], others: Span[]): Span[] {
  return some
    .flatMap((one) => others.map((other) => ({ from: Math.max(one.from, other.from), to: Math.min(one.to, other.to) })))
    .filter((span) => span.to > span.from);
}

function isJustAfterPause(span: Span, { from, instance }: Execution, later: Execution, leaseMs: number): boolean {
  return instance.pauses.some(
    (pause) =>
      pause.to - pause.from >= BLAMED_SHARE * leaseMs &&
      from <= pause.from &&
      later.from >= pause.from &&
      span.from >= pause.to &&
      span.to <= pause.to + THAW_MS,
  );
}
