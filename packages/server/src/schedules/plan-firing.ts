/**
 * What is to become of the due occurrences of one schedule, pure. `now` is the database's; the server that plans and
 * the one that fires the next time need not be the same.
 *
 * An occurrence is on time when it is looked at within ON_TIME_MS of its due time; later it is *missed*, and the
 * catch-up policy says what becomes of it. Every nominal time up to `handledUntil` is in the ledger when the plan has
 * been carried out, so none is lost and none comes twice, whoever dies in between.
 */
import type { OccurrenceState, SkipReason } from '@drover/protocol';
import type { CompiledSchedule } from './compiled.js';

export type ScheduleStatus = {
  /** All nominal times up to here are accounted for. */
  handledUntilMs: number;
  fired: number;
  /** The job of the latest firing is unfinished. */
  previousLives: boolean;
  /** The nominal time of an occurrence that waits for that job. */
  waitingMs: number | undefined;
  /** How many of the latest jobs have failed, without one in between that did not. */
  failuresInARow: number;
};

export type PlannedOccurrence = { nominalMs: number; dueMs: number; state: OccurrenceState; reason?: SkipReason };

export type Plan = {
  occurrences: PlannedOccurrence[];
  handledUntilMs: number;
  /** Undefined when none will ever come. */
  next: { nominalMs: number; dueMs: number } | undefined;
  /** The nominal time that waits now. */
  waitingMs: number | undefined;
  /** Why the schedule pauses itself. */
  pauseNote?: string;
};

/** Later than this after its due time an occurrence counts as missed: nobody could fire it. */
export const ON_TIME_MS = 60_000;
/** Occurrences of one schedule that are decided in one round; the rest follows in the next. */
export const MAX_A_ROUND = 1000;

export function planFiring(schedule: CompiledSchedule, status: ScheduleStatus, nowMs: number): Plan {
  const { definition, occurrences: times, dueAt } = schedule;
  const decided: PlannedOccurrence[] = [];
  const spent = status.fired + (status.waitingMs === undefined ? 0 : 1);
  const run = { ...status, left: (definition.maxOccurrences ?? Number.POSITIVE_INFINITY) - spent };
  const pauseNote = pauseNoteFor(definition.pauseAfterFailures, status.failuresInARow);
  let handledUntilMs = status.handledUntilMs;
  let nominalMs = times.after(handledUntilMs);
  while (nominalMs !== undefined && decided.length < MAX_A_ROUND && run.left > 0) {
    const dueMs = dueAt(nominalMs);
    if (dueMs > nowMs) break;
    const followingMs = times.after(nominalMs);
    const isLast = followingMs === undefined || dueAt(followingMs) > nowMs;
    const occurrence = { nominalMs, dueMs };
    if (pauseNote !== undefined) decided.push({ ...occurrence, state: 'skipped', reason: 'failures' });
    else if (isMissed(definition, nowMs - dueMs, isLast))
      decided.push({ ...occurrence, state: 'skipped', reason: 'missed' });
    else decide(definition.overlap, run, occurrence, decided);
    handledUntilMs = nominalMs;
    nominalMs = followingMs;
  }
  const next = nominalMs === undefined || run.left <= 0 ? undefined : { nominalMs, dueMs: dueAt(nominalMs) };
  return { occurrences: decided, handledUntilMs, next, waitingMs: run.waitingMs, ...(pauseNote && { pauseNote }) };
}

function pauseNoteFor(limit: number | undefined, failures: number): string | undefined {
  if (limit === undefined || failures < limit) return undefined;
  return `the last ${limit === 1 ? 'job' : `${limit} jobs`} of this schedule failed`;
}

function isMissed(
  { catchUp, catchUpWindow }: CompiledSchedule['definition'],
  lateMs: number,
  isLast: boolean,
): boolean {
  if (lateMs <= ON_TIME_MS) return false;
  if (lateMs > catchUpWindow) return true;
  return catchUp === 'none' || (catchUp === 'last' && !isLast);
}

/** What the overlap policy makes of an occurrence, and of one that waits. */
function decide(
  overlap: CompiledSchedule['definition']['overlap'],
  run: { left: number; previousLives: boolean; waitingMs: number | undefined },
  occurrence: { nominalMs: number; dueMs: number },
  decided: PlannedOccurrence[],
): void {
  if (overlap === 'allow' || !run.previousLives) {
    decided.push({ ...occurrence, state: 'fired' });
    run.left -= 1;
    run.previousLives = true;
    return;
  }
  if (overlap === 'skip' || (overlap === 'queue-one' && run.waitingMs !== undefined)) {
    decided.push({ ...occurrence, state: 'skipped', reason: 'overlap' });
    return;
  }
  // with cancel-previous the newest waits, and only until the job before it has been stopped
  if (run.waitingMs === undefined) run.left -= 1;
  else replaceWaiting(run.waitingMs, decided);
  decided.push({ ...occurrence, state: 'waiting' });
  run.waitingMs = occurrence.nominalMs;
}

function replaceWaiting(waitingMs: number, decided: PlannedOccurrence[]): void {
  const index = decided.findIndex(({ nominalMs }) => nominalMs === waitingMs);
  const replaced = { state: 'skipped', reason: 'replaced' } as const;
  const known = decided[index];
  if (known) decided[index] = { ...known, ...replaced };
  // one of an earlier round: its due time is in the ledger already
  else decided.push({ nominalMs: waitingMs, dueMs: waitingMs, ...replaced });
}
