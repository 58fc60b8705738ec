/** What is told of decided occurrences, whoever decided them: counted, and logged where somebody may have to act. */
import type { Logger } from 'pino';
import type { Metrics } from '../metrics.js';
import type { Fired } from './fire-due.js';

export type Report = (fired: Fired) => void;

type ReportDeps = {
  logger: Logger;
  metrics: Pick<
    Metrics,
    'occurrencesFired' | 'occurrencesLate' | 'occurrencesSkipped' | 'schedulesPaused' | 'lateness'
  >;
  lateAfterMs: number;
};

export function createReport({ logger, metrics, lateAfterMs }: ReportDeps): Report {
  return ({ firings, skipped, paused, broken }) => {
    metrics.occurrencesFired.inc(firings.length);
    let latestMs = 0;
    let late = 0;
    for (const { latenessMs } of firings) {
      if (latenessMs === undefined) continue;
      metrics.lateness.observe(latenessMs / 1000);
      latestMs = Math.max(latestMs, latenessMs);
      if (latenessMs > lateAfterMs) late += 1;
    }
    metrics.occurrencesLate.inc(late);
    if (late > 0) logger.warn({ jobs: late, latenessMs: latestMs }, 'occurrences were fired late');
    for (const { reason, count } of skipped) metrics.occurrencesSkipped.inc({ reason }, count);
    if (skipped.length > 0) logger.warn({ skipped: skipped.length, first: skipped[0] }, 'occurrences were skipped');
    metrics.schedulesPaused.inc({ reason: 'failures' }, paused.length);
    for (const schedule of paused) logger.warn({ schedule }, 'a schedule was paused after failures');
    metrics.schedulesPaused.inc({ reason: 'unreadable' }, broken.length);
    for (const { schedule, error } of broken)
      logger.error({ schedule, err: error }, 'a schedule was paused: it cannot be read');
  };
}
