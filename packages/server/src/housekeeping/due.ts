/**
 * Makes scheduled jobs ready when their time comes: an alarm for the earliest of them, and a look every
 * MAX_PAUSE_MS for what other servers or transactions have added. Any number of servers may do it at once:
 * the rows are taken with `skip locked`.
 */
import type { Logger } from 'pino';
import { createAlarm } from '../alarm.js';
import type { Runner } from '../db/database.js';
import { promoteJobs, untilNextDueMs } from '../lifecycle/promote.js';

export type Due = {
  start(): void;
  stop(): Promise<void>;
  /** A job will be due in this many milliseconds. */
  expect(inMs: number): void;
};

const BATCH = 1000;
const MAX_PAUSE_MS = 1000;

export function createDue({ db, logger, onPromoted }: { db: Runner; logger: Logger; onPromoted(): void }): Due {
  async function promoteAll(signal: AbortSignal): Promise<number> {
    while (!signal.aborted) {
      const promoted = await promoteJobs(db, BATCH);
      if (promoted > 0) onPromoted();
      if (promoted < BATCH) break;
    }
    const next = await untilNextDueMs(db);
    return next === null ? MAX_PAUSE_MS : Math.min(MAX_PAUSE_MS, Math.max(1, next));
  }

  const failureMessage = 'scheduled jobs could not be made ready, trying again';
  const { start, stop, within } = createAlarm({ turn: promoteAll, failureMessage, logger });
  return { start, stop, expect: within };
}
