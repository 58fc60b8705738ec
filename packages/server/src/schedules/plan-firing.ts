/**
 * Plans the due occurrences of one schedule. Pure: the present time comes from the database, and each round may be
 * planned by another server.
 *
 * An occurrence is on time if it is planned within ON_TIME_MS of its due time. Later it is *missed*, and the catch-up
 * policy decides. When the plan is written, every nominal time up to `handledUntil` is in the ledger, so a crash at
 * any time neither loses nor repeats an occurrence. Many occurrences that are skipped in a row share one row.
 */
import type { OccurrenceState, SkipReason } from '@drover/protocol';
import type { Timetable } from './timing/timetable.js';

export type ScheduleStatus = {
  /** All nominal times up to this one are decided. */
  handledUntilMs: number;
  fired: number;
  /** The job of the latest firing is unfinished. */
  previousLives: boolean;
  /** The nominal time of an occurrence that waits for that job. */
  waitingMs: number | undefined;
  /** How many of the latest jobs failed in a row. */
  failuresInARow: number;
};

export type PlannedOccurrence = {
  nominalMs: number;
  dueMs: number;
  state: OccurrenceState;
  reason?: SkipReason;
  /** This occurrence is the first of `count` that share its row. */
  run?: { lastMs: number; count: number };
};

export type Plan = {
  occurrences: PlannedOccurrence[];
  handledUntilMs: number;
  /** Undefined if the schedule has no further occurrence. */
  next: { nominalMs: number; dueMs: number } | undefined;
  /** The nominal time of the occurrence that waits now. */
  waitingMs: number | undefined;
  /** Why the schedule pauses itself. */
  pauseNote?: string;
};

/** An occurrence that is later than this is missed: no server could fire it. */
const ON_TIME_MS = 60_000;
/** Jobs of one schedule in one round; the rest follows in the next round. */
export const MAX_JOBS_A_ROUND = 1000;
/** Occurrences of one schedule that one round decides, at about 3 µs each. */
export const MAX_OCCURRENCES_A_ROUND = 20_000;
/** More occurrences than this that are skipped in a row for the same reason are written as one run. */
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
  while (
    nominalMs !== undefined &&
    jobs < MAX_JOBS_A_ROUND &&
    decided.length < MAX_OCCURRENCES_A_ROUND &&
    run.left > 0
  ) {
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

/** Joins what is skipped in a row for one reason. An occurrence that waited before has its own row already. */
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

/** Applies the overlap policy to an occurrence, and to the one that waits. */
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
  // with cancel-previous the newest occurrence waits, until the job before it has stopped
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
  // it waits since an earlier round, so the ledger has its due time
  else decided.push({ nominalMs: waitingMs, dueMs: waitingMs, ...replaced });
}
