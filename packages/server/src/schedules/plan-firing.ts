/**
 * What is to become of the due occurrences of one schedule, pure. `now` is the database's; the server that plans and
 * the one that fires the next time need not be the same.
 *
 * An occurrence is on time when it is looked at within ON_TIME_MS of its due time; later it is *missed*, and the
 * catch-up policy says what becomes of it. Every nominal time up to `handledUntil` is in the ledger when the plan has
 * been carried out, so none is lost and none comes twice, whoever dies in between. Many that are left out in a row
 * have one row together.
 */
import type { OccurrenceState, SkipReason } from '@drover/protocol';
import type { Timetable } from './timing/timetable.js';

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

export type PlannedOccurrence = {
  nominalMs: number;
  dueMs: number;
  state: OccurrenceState;
  reason?: SkipReason;
  /** It stands for so many, of which this is the first. */
  run?: { lastMs: number; count: number };
};

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
/** Jobs that one schedule makes in one round; the rest follows in the next. */
export const MAX_JOBS_A_ROUND = 1000;
/** Occurrences that one round looks at, at some 3 µs each. */
export const MAX_LOOKS_A_ROUND = 20_000;
/** More than so many that are left out in a row, for the same reason, are written as a run. */
export const MAX_ROWS_IN_A_ROW = 100;

export function planFiring(schedule: Timetable, status: ScheduleStatus, nowMs: number): Plan {
  const { definition, occurrences: times, dueAt } = schedule;
  const decided: PlannedOccurrence[] = [];
  const spent = status.fired + (status.waitingMs === undefined ? 0 : 1);
  const run = { ...status, left: (definition.maxOccurrences ?? Number.POSITIVE_INFINITY) - spent };
  const pauseNote = pauseNoteFor(definition.pauseAfterFailures, status.failuresInARow);
  let handledUntilMs = status.handledUntilMs;
  let nominalMs = times.after(handledUntilMs);
  let jobs = 0;
  while (nominalMs !== undefined && jobs < MAX_JOBS_A_ROUND && decided.length < MAX_LOOKS_A_ROUND && run.left > 0) {
    const dueMs = dueAt(nominalMs);
    if (dueMs > nowMs) break;
    const followingMs = times.after(nominalMs);
    const isLast = followingMs === undefined || dueAt(followingMs) > nowMs;
    const occurrence = { nominalMs, dueMs };
    if (pauseNote !== undefined) decided.push({ ...occurrence, state: 'skipped', reason: 'failures' });
    else if (isMissed(definition, nowMs - dueMs, isLast))
      decided.push({ ...occurrence, state: 'skipped', reason: 'missed' });
    else decide(definition.overlap, run, occurrence, decided);
    if (decided.at(-1)?.state === 'fired') jobs += 1;
    handledUntilMs = nominalMs;
    nominalMs = followingMs;
  }
  const next = nominalMs === undefined || run.left <= 0 ? undefined : { nominalMs, dueMs: dueAt(nominalMs) };
  const occurrences = withRuns(decided, status.handledUntilMs);
  return { occurrences, handledUntilMs, next, waitingMs: run.waitingMs, ...(pauseNote && { pauseNote }) };
}

/** Takes together what is left out in a row for one reason. What was handled before has a row of its own already. */
function withRuns(decided: readonly PlannedOccurrence[], handledUntilMs: number): PlannedOccurrence[] {
  const isFresh = ({ state, nominalMs }: PlannedOccurrence) => state === 'skipped' && nominalMs > handledUntilMs;
  const together: PlannedOccurrence[] = [];
  for (let start = 0, end = 0; start < decided.length; start = end) {
    const first = decided[start] as PlannedOccurrence;
    end = start + 1;
    if (isFresh(first)) while (end < decided.length && decided[end]?.reason === first.reason) end += 1;
    const last = decided[end - 1] as PlannedOccurrence;
    if (end - start > MAX_ROWS_IN_A_ROW)
      together.push({ ...first, run: { lastMs: last.nominalMs, count: end - start } });
    else together.push(...decided.slice(start, end));
  }
  return together;
}

function pauseNoteFor(limit: number | undefined, failures: number): string | undefined {
  if (limit === undefined || failures < limit) return undefined;
  return `the last ${limit === 1 ? 'job' : `${limit} jobs`} of this schedule failed`;
}

function isMissed({ catchUp, catchUpWindow }: Timetable['definition'], lateMs: number, isLast: boolean): boolean {
  if (lateMs <= ON_TIME_MS) return false;
  if (lateMs > catchUpWindow) return true;
  return catchUp === 'none' || (catchUp === 'last' && !isLast);
}

/** What the overlap policy makes of an occurrence, and of one that waits. */
function decide(
  overlap: Timetable['definition']['overlap'],
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
  const index = decided.findLastIndex(({ nominalMs }) => nominalMs === waitingMs);
  const replaced = { state: 'skipped', reason: 'replaced' } as const;
  const known = decided[index];
  if (known) decided[index] = { ...known, ...replaced };
  // one of an earlier round: its due time is in the ledger already
  else decided.push({ nominalMs: waitingMs, dueMs: waitingMs, ...replaced });
}
