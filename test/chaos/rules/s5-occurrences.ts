/**
 * Every occurrence of a schedule is decided exactly once. The expected occurrences are computed here, from the
 * interval and the times at which the load created and paused the schedule; the system's own progress mark is not
 * used. The load creates schedules before the faults and pauses them after, so both clocks are right at these times.
 */
import type { Action, Evidence, ScheduleRecord } from '../evidence/evidence.js';
import type { Execution } from '../evidence/witness.js';
import type { Report, Rule } from './rule.js';

export const occurrencesAccountedFor: Rule = {
  code: 'S5',
  promise: 'each occurrence of a schedule fires one job, and none is missing',
  shows: ['J7', 'V2'],
  check(evidence, report) {
    const runsByOccurrence = new Map<string, Execution[]>();
    for (const run of [...evidence.executions.values()].flat()) {
      if (run.occurrence === undefined) continue;
      runsByOccurrence.set(run.occurrence, [...(runsByOccurrence.get(run.occurrence) ?? []), run]);
    }
    for (const action of evidence.ledger.actions.filter(({ kind }) => kind === 'schedule')) {
      const schedule = evidence.schedules.find(({ name }) => name === action.target);
      report.check(schedule !== undefined, () => `schedule ${action.target} does not exist`);
      if (schedule) checkSchedule(evidence, schedule, action, runsByOccurrence, report);
    }
  },
};

function checkSchedule(
  { ledger, jobById }: Evidence,
  { name, occurrences }: ScheduleRecord,
  made: Action,
  runsByOccurrence: ReadonlyMap<string, readonly Execution[]>,
  report: Report,
): void {
  const ended = ledger.actionsOn(name).find(({ kind }) => kind === 'end-schedule');
  report.check(ended !== undefined, () => `schedule ${name} was not paused at the end of the run`);
  if (!ended) return;
  const [madeSent, madeAnswered, everyMs] = valuesOf(made);
  const [endSent, endAnswered] = valuesOf(ended);
  const rows = new Map(occurrences.map((row) => [row.nominalAt, row]));
  for (let nominal = nextOf(madeAnswered, everyMs); nominal <= endSent; nominal += everyMs) {
    const row = rows.get(nominal);
    const runs = runsByOccurrence.get(`${name}@${new Date(nominal).toISOString()}`) ?? [];
    const isRight =
      row?.state === 'fired' &&
      row.jobId !== null &&
      jobById.get(row.jobId)?.state === 'succeeded' &&
      runs.length > 0 &&
      runs.every(({ id }) => id === row.jobId);
    report.check(isRight, () => {
      const ran = runs.map(({ id }) => id).join(', ') || 'nothing';
      return `${name} at ${new Date(nominal).toISOString()}: ${JSON.stringify(row ?? 'no row')}, ran: ${ran}`;
    });
  }
  for (const { nominalAt } of occurrences) {
    const isExpected = nominalAt % everyMs === 0 && nominalAt > madeSent && nominalAt <= endAnswered;
    report.check(
      isExpected,
      () => `${name} has an occurrence at ${new Date(nominalAt).toISOString()}, which must not be`,
    );
  }
}

/** The answer that the load records: the wall clock times of the request and of its answer, and the interval. */
function valuesOf({ answer }: Action): [sent: number, answered: number, everyMs: number] {
  const [sent = Number.NaN, answered = Number.NaN, everyMs = Number.NaN] = answer.split(' ').map(Number);
  return [sent, answered, everyMs];
}

function nextOf(afterMs: number, everyMs: number): number {
  return Math.floor(afterMs / everyMs) * everyMs + everyMs;
}
