/**
 * Makes scheduled jobs ready when their time comes: one timer for the earliest of them, and a look every
 * MAX_PAUSE_MS for what other servers or transactions have added. Any number of servers may do it at once:
 * the rows are taken with `skip locked`.
 */
import type { Logger } from 'pino';
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
const ERROR_PAUSE_MS = 1000;

export function createDue(deps: { db: Runner; logger: Logger; onPromoted(): void }): Due {
  let timer: NodeJS.Timeout | undefined;
  let wakeAt = Number.POSITIVE_INFINITY;
  let turn: Promise<void> | undefined;
  let stopped = true;

  function arm(inMs: number): void {
    const at = performance.now() + Math.max(0, inMs);
    if (stopped || at >= wakeAt) return;
    clearTimeout(timer);
    wakeAt = at;
    timer = setTimeout(run, Math.max(0, inMs));
  }

  function run(): void {
    wakeAt = Number.POSITIVE_INFINITY;
    turn ??= promoteAll()
      .catch((error: Error) => {
        deps.logger.warn({ err: error }, 'scheduled jobs could not be made ready, trying again');
        return ERROR_PAUSE_MS;
      })
      .then((pauseMs) => {
        turn = undefined;
        arm(pauseMs);
      });
  }

  /** Gives the milliseconds until it should run again. */
  async function promoteAll(): Promise<number> {
    while (!stopped) {
      const promoted = await promoteJobs(deps.db, BATCH);
      if (promoted > 0) deps.onPromoted();
      if (promoted < BATCH) break;
    }
    const next = await untilNextDueMs(deps.db);
    return next === null ? MAX_PAUSE_MS : Math.min(MAX_PAUSE_MS, Math.max(1, next));
  }

  return {
    start() {
      stopped = false;
      arm(0);
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await turn;
    },
    expect: arm,
  };
}
