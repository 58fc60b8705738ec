/** Reports decided occurrences, by a firing or before a change: all as metrics, and as events where an operator may have to act. */
import type { EventFields, Events } from '../telemetry/log-events.js';
import type { Metrics } from '../telemetry/metrics.js';
import type { Decisions, Firing } from './fire-due.js';

export type Report = (decisions: Decisions) => void;

/** For callers that need no report. */
export const IGNORE: Report = () => {};

type ReportDeps = {
  events: Events;
  metrics: Pick<
    Metrics,
    'occurrencesFired' | 'occurrencesLate' | 'occurrencesSkipped' | 'schedulesPaused' | 'lateness'
  >;
  lateAfterMs: number;
};

export function createReport({ events, metrics, lateAfterMs }: ReportDeps): Report {
  return ({ firings, skipped, paused, broken }) => {
    metrics.occurrencesFired.inc(firings.length);
    const late: LateFiring[] = [];
    for (const { latenessMs, ...firing } of firings) {
      if (latenessMs === undefined) continue;
      metrics.lateness.observe(latenessMs / 1000);
      if (latenessMs > lateAfterMs) late.push({ ...firing, latenessMs });
    }
    metrics.occurrencesLate.inc(late.length);
    events.tell('schedule.late', bySchedule(late));

    for (const { reason, count } of skipped) metrics.occurrencesSkipped.inc({ reason }, count);
    events.tell(
      'schedule.skipped',
      skipped.map(({ firstMs, lastMs, ...rest }) => ({ ...rest, first: iso(firstMs), last: iso(lastMs) })),
    );

    metrics.schedulesPaused.inc({ reason: 'failures' }, paused.length);
    metrics.schedulesPaused.inc({ reason: 'unreadable' }, broken.length);
    events.tell('schedule.paused', [
      ...paused.map((schedule) => ({ schedule, reason: 'failures' as const })),
      ...broken.map(({ schedule, error }) => ({ schedule, reason: 'unreadable' as const, err: error })),
    ]);
  };
}

type LateFiring = Firing & { latenessMs: number };

/** One event per schedule: after a day of downtime a schedule has many occurrences to catch up on. */
function bySchedule(late: readonly LateFiring[]): EventFields['schedule.late'][] {
  const all = new Map<string, EventFields['schedule.late']>();
  for (const { schedule, nominalMs, latenessMs } of late) {
    const at = iso(nominalMs);
    const known = all.get(schedule) ?? { schedule, count: 0, first: at, last: at, latenessMs: 0 };
    const most = Math.max(known.latenessMs, latenessMs);
    all.set(schedule, { ...known, count: known.count + 1, last: at, latenessMs: most });
  }
  return [...all.values()];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
