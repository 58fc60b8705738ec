/** An attempt with a timeout is told to stop in time, and only then. The handlers of the load obey their signal. */
import { blockedMs, blockingOf, runsByInstance } from '../evidence/blocked.js';
import { runsOf } from '../evidence/evidence.js';
import { describeRuns, type Execution } from '../evidence/witness.js';
import type { Rule } from './rule.js';

/** Timers of a busy process are late. Pauses and blocking handlers come on top. */
const LATE_MS = 2000;
/** The witness records a start after the timer was set. */
const EARLY_MS = 100;

export const timeoutIsKept: Rule = {
  code: 'T3',
  promise: 'an attempt is stopped at its timeout, and not before',
  shows: ['J9'],
  check(evidence, report) {
    const blocking = new Map([...runsByInstance(evidence)].map(([instance, runs]) => [instance, blockingOf(runs)]));
    for (const { id, timeoutMs } of evidence.ledger.jobs.values()) {
      if (timeoutMs === undefined) continue;
      const runs = runsOf(evidence, id);
      const isRight = runs.every((run) => {
        const ms = run.to - run.from;
        // the clock of a paused process continues, so a timeout that passed meanwhile is due when it resumes
        if (run.end === 'abort:timeout' && ms < timeoutMs - EARLY_MS) return false;
        const blocked = blockedMs(run, blocking.get(run.instance) ?? []);
        return run.end === undefined || ms <= timeoutMs + LATE_MS + blocked + pausedMs(run);
      });
      report.check(isRight, () => `${id} has a timeout of ${timeoutMs} ms: ${describeRuns(runs)}`);
    }
  },
};

function pausedMs({ from, to, instance }: Execution): number {
  return instance.pauses.reduce(
    (sum, pause) => sum + Math.max(0, Math.min(pause.to, to) - Math.max(pause.from, from)),
    0,
  );
}
