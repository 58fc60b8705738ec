/**
 * Makes scheduled jobs ready when their time comes: an alarm for the earliest of them, and a lookup every MAX_PAUSE_MS for what
 * other servers or transactions have added. Any number of servers may do it at once: the rows are taken with `skip locked`.
 */
import type { Logger } from 'pino';
import { createAlarm } from '../base/alarm.js';
import type { Runner } from '../db/database.js';
import { promoteJobs, untilNextDueMs } from '../lifecycle/promote.js';
import type { Publish } from '../lifecycle/publish.js';

export type Promoter = {
  start(): void;
  stop(): Promise<void>;
  /** A job becomes due in this many milliseconds. */
  expect(inMs: number): void;
};

const BATCH = 1000;
const MAX_PAUSE_MS = 1000;
/** Pause until the next lookup when other servers are just promoting the due jobs. */
const OTHERS_PAUSE_MS = 10;

export function createPromoter({ db, logger, publish }: { db: Runner; logger: Logger; publish: Publish }): Promoter {
  async function promoteDue(signal: AbortSignal): Promise<number> {
    const next = await untilNextDueMs(db);
    if (next === null || next > 0) return Math.min(MAX_PAUSE_MS, next === null ? MAX_PAUSE_MS : Math.max(1, next));
    while (!signal.aborted) {
      const promoted = await promoteJobs(db, BATCH);
      publish(promoted);
      // other servers have the rest
      if (promoted.length === 0) return OTHERS_PAUSE_MS;
      if (promoted.length < BATCH) break;
    }
    return 0;
  }

  const failure = { event: 'promotion.failed', message: 'scheduled jobs could not be made ready, trying again' };
  const { start, stop, within } = createAlarm({ turn: promoteDue, failure, logger });
  return { start, stop, expect: within };
}
