/** Runs an attempt that the journal knows of. */
import type { Outcome } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import type { Attempt } from '../attempt.js';
import { outcomeOfError } from '../outcome.js';
import type { Journal } from './journal.js';

type Run = (attempt: Attempt) => Promise<Outcome | undefined>;
/** Whether the lease allows it at this moment of `performance.now()`, and the journal keeps what is said. */
type MayStart = (now: number) => boolean;

/** Like `run`, never rejects. */
export function runJournaled(
  journal: Journal,
  attempt: Attempt,
  mayStart: MayStart,
  run: Run,
): Promise<Outcome | undefined> {
  journal.started(attempt.assignment);
  return attempt.assignment.onLost === 'hold' ? runWhenDurable(journal, attempt, mayStart, run) : run(attempt);
}

/**
 * A `hold` job that dies with its process must be known to have been started: nobody else will start it, and
 * only this journal can tell that it did not end.
 *
 * Died between the durable line and the handler: nobody can tell it from one that has begun, so it is held. The
 * other order would lose starts, and with them the promise that a held job is not run again.
 *
 * The disk may take any time, and the process may have stood still meanwhile: when the lease is in doubt by then, the
 * job is handed back, as one that waits is. A person may have given it to another worker.
 */
async function runWhenDurable(
  journal: Journal,
  attempt: Attempt,
  mayStart: MayStart,
  run: Run,
): Promise<Outcome | undefined> {
  await journal.commit();
  failpoint('hold.journaled');
  const { assignment, stopReason } = attempt;
  const { id, fence } = assignment;
  if (stopReason === undefined && mayStart(performance.now())) return run(attempt);
  attempt.isSettled = true;
  if (stopReason === undefined) return { id, fence, kind: 'released' };
  return outcomeOfError({ assignment, runMs: 0, stopReason, random: Math.random() }, attempt.signal.reason);
}
