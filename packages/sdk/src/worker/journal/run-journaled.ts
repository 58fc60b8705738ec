/** Runs an attempt that the journal knows of. */
import type { Outcome } from '@drover/protocol';
import type { Attempt } from '../attempt.js';
import { outcomeOfError } from '../outcome.js';
import type { Journal } from './journal.js';

type Run = (attempt: Attempt) => Promise<Outcome | undefined>;

/** Like `run`, never rejects. */
export function runJournaled(journal: Journal, attempt: Attempt, run: Run): Promise<Outcome | undefined> {
  journal.started(attempt.assignment);
  return attempt.assignment.onLost === 'hold' ? runWhenDurable(journal, attempt, run) : run(attempt);
}

/**
 * A `hold` job that dies with its process must be known to have been started: nobody else will start it, and
 * only this journal can tell that it did not end.
 */
async function runWhenDurable(journal: Journal, attempt: Attempt, run: Run): Promise<Outcome | undefined> {
  await journal.commit();
  const { assignment, stopReason } = attempt;
  const { id, fence } = assignment;
  if (stopReason === undefined && journal.isWritable) return run(attempt);
  attempt.isSettled = true;
  if (stopReason === undefined) return { id, fence, kind: 'released' };
  return outcomeOfError({ assignment, runMs: 0, stopReason, random: Math.random() }, attempt.signal.reason);
}
