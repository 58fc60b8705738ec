/**
 * Why a job may run again after one of its executions. Each reason was seen outside: how the handler ended, how its
 * process ended, a person's request. That a worker was declared dead is only known from the database; S10 checks with
 * the plan of faults whether it was right.
 */
import { type Evidence, type Execution, grantsOf, processKey } from '../evidence/evidence.js';

/** A worker's death in the database is seen up to this long after its commit. */
const WATCH_LAG_MS = 1000;

export type Reason =
  | 'it threw'
  | 'it was snoozed'
  | 'it was stopped'
  | 'its process died'
  | 'its worker was declared dead'
  | 'a person asked for it';

/** Why the job could run again by itself before `nextFrom`; undefined if nothing explains it. */
export function reasonToRepeat(evidence: Evidence, run: Execution, nextFrom: number): Reason | undefined {
  if (wasRetriedByHand(evidence, run, nextFrom)) return 'a person asked for it';
  switch (run.end) {
    case 'error':
      return 'it threw';
    case 'snooze':
      return 'it was snoozed';
    case 'abort:shutdown':
    case 'abort:timeout':
    case 'abort:lost':
      return 'it was stopped';
    // cancelled and expired jobs are over
    default:
      if (run.end?.startsWith('abort:')) return undefined;
  }
  if (diedBefore(run, nextFrom)) return 'its process died';
  // it ended well or still runs, and could not report that in time
  return wasDeclaredDead(evidence, run, nextFrom) ? 'its worker was declared dead' : undefined;
}

/** A process that stops cleanly waits for its handlers and delivers their outcomes. */
function diedBefore({ instance }: Execution, nextFrom: number): boolean {
  const { exitedAt, ending } = instance;
  return exitedAt !== undefined && exitedAt <= nextFrom && ending !== 'code 0';
}

function wasDeclaredDead(evidence: Evidence, run: Execution, nextFrom: number): boolean {
  const grant = grantsOf(evidence, run.id).find(({ fence }) => fence === run.fence);
  return evidence.verdicts.some(
    (verdict) =>
      verdict.sessionId === grant?.sessionId &&
      processKey(verdict) === processKey(run.instance) &&
      verdict.seenAt >= run.from &&
      verdict.seenAt <= nextFrom + WATCH_LAG_MS,
  );
}

function wasRetriedByHand({ ledger }: Evidence, run: Execution, nextFrom: number): boolean {
  return ledger
    .actionsOn(run.id)
    .some(({ kind, sentAt, answeredAt }) => kind === 'retry' && sentAt <= nextFrom && answeredAt >= run.from);
}
