/** Runs an attempt that is recorded in the journal. */
import type { Outcome } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import type { Attempt } from '../attempt.js';
import { outcomeOfError } from '../outcome.js';
import type { Journal } from './journal.js';

type Run = (attempt: Attempt) => Promise<Outcome | undefined>;
/** Whether at this time (`performance.now()`) the lease allows a start and the journal is writable. */
type MayStart = (now: number) => boolean;

/** Never rejects, like `run`. */
export function runJournaled(
  journal: Journal,
  attempt: Attempt,
  mayStart: MayStart,
  run: Run,
): Promise<Outcome | undefined> {
  const { id, fence, type, options } = attempt.assignment;
  const onLost = options?.onLost;
  journal.started({ id, fence, type, onLost });
  return onLost === 'hold' ? runWhenDurable(journal, attempt, mayStart, run) : run(attempt);
}

/**
 * A `hold` job that dies with its process must be recorded as started: it is not given to another worker, and only
 * this journal can show that it did not end.
 *
 * If the process dies between the durable line and the handler, the job looks as if it had begun, so it is held. The
 * reverse order would lose starts, and with them the promise that a held job is not run again.
 *
 * The write may take long, and the process may have been frozen meanwhile. If the lease is in doubt by then, the job
 * is handed back as if it had not started, because a person may have given it to another worker.
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
