/**
 * While a queue is paused none of its jobs starts. Servers learn of a pause within a beat, and workers hand back what
 * has not started. A start is excused if the worker, a server or the database was broken right before.
 */
import { type Evidence, type Execution, overlapsSpan } from '../evidence/evidence.js';
import type { Rule } from './rule.js';

/** A beat, and the delivery to the workers. */
const HEARD_MS = 1500;

type Pause = { queue: string; from: number; to: number };

export const pauseHolds: Rule = {
  code: 'P5',
  promise: 'no job of a paused queue starts',
  shows: ['P5'],
  check(evidence, report) {
    const pauses = pausesOf(evidence);
    let excused = 0;
    for (const [id, runs] of evidence.executions) {
      const queue = evidence.jobById.get(id)?.queue;
      const own = pauses.filter((pause) => pause.queue === queue);
      if (own.length === 0) continue;
      for (const run of runs) {
        const pause = own.find(({ from, to }) => run.from >= from && run.from <= to);
        const isExcused = pause !== undefined && couldNotBeTold(evidence, run);
        if (isExcused) excused += 1;
        report.check(
          pause === undefined || isExcused,
          () => `${id} began on ${run.instance.key} while ${queue} was paused`,
        );
      }
    }
    report.note(`${pauses.length} pauses, ${excused} starts where a worker or server could not be told`);
  },
};

function pausesOf({ ledger }: Evidence): Pause[] {
  const pauses: Pause[] = [];
  for (const { kind, target, ok, answeredAt } of ledger.actions) {
    if (kind !== 'pause' || !ok) continue;
    const resumed = ledger.actionsOn(target).find((action) => action.kind === 'resume' && action.sentAt > answeredAt);
    if (resumed) pauses.push({ queue: target, from: answeredAt + HEARD_MS, to: resumed.sentAt });
  }
  return pauses;
}

function couldNotBeTold({ units, databaseTroubles }: Evidence, { instance, from }: Execution): boolean {
  const troubles = units
    .filter(({ name, role }) => role === 'server' || name === instance.unit)
    .flatMap((unit) => unit.troubles);
  return [...troubles, ...databaseTroubles].some((trouble) => overlapsSpan(trouble, from - HEARD_MS, from));
}
