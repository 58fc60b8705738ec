/**
 * Fires schedules on this server: an alarm for the earliest due time, and a search every MAX_PAUSE_MS for what other servers have
 * changed. Any other server can do the same work.
 */
import type { Logger } from 'pino';
import { createAlarm } from '../base/alarm.js';
import type { Runner } from '../db/database.js';
import { jobsToCancel, OVERDUE_MS, type Share } from './due-schedules.js';
import { findWork } from './find-work.js';
import { type Decisions, fireDue, fireOverdue, fireWaiting } from './fire-due.js';
import { FIRST_ID, followNewRules, replaceOlderRules } from './follow-rules.js';
import type { Report } from './report.js';

export type Ticker = {
  start(): void;
  stop(): Promise<void>;
  /** A schedule has changed: searches for work now. */
  wake(): void;
};

type TickerDeps = {
  db: Runner;
  logger: Logger;
  report: Report;
  share(): Share;
  /** Jobs are ready. */
  onFired(): void;
  cancel(jobIds: string[]): Promise<void>;
};

/** Schedules in one statement: about 0.15 MB at 300 bytes each. */
const BATCH = 500;
const MAX_PAUSE_MS = 1000;
/** Batches at the same time: one is planned here while PostgreSQL writes the other. */
const BATCHES_AT_ONCE = 2;
/** Pause while only schedules of other servers are due. */
const NOT_OURS_PAUSE_MS = 100;
/** While an occurrence waits for a job, a job must be cancelled or a next time is outdated. */
const UPKEEP_EVERY_MS = 500;
const UPKEEP_FAILED = 'waiting occurrences of schedules could not be handled, trying again';

export function createTicker(deps: TickerDeps): Ticker {
  const { db, logger } = deps;
  let upkeepAt = 0;
  /** The last id that was checked for next times of older rules; undefined when all have been checked. */
  let olderRulesAfter: string | undefined = FIRST_ID;

  /** Returns the milliseconds until it should run again. */
  async function tick(signal: AbortSignal): Promise<number> {
    const { dueInMs, needsUpkeep } = await findWork(db);
    const isDue = dueInMs !== null && dueInMs <= 0;
    const hasFired = isDue && (await fire(signal, dueInMs));
    const pauseMs = await upkeepIfDue(needsUpkeep || olderRulesAfter !== undefined);
    if (!isDue) return Math.min(pauseMs, Math.max(1, dueInMs ?? pauseMs));
    // other servers fire their own share first
    return hasFired ? 0 : NOT_OURS_PAUSE_MS;
  }

  /** Returns whether any schedule was this server's to fire. */
  async function fire(signal: AbortSignal, dueInMs: number): Promise<boolean> {
    const { index, of } = deps.share();
    // id % of = index splits into as many shares of a larger divisor
    const shares = Array.from({ length: BATCHES_AT_ONCE }, (_, n) => ({
      index: index + n * of,
      of: of * BATCHES_AT_ONCE,
    }));
    const taken = await Promise.all(shares.map((share) => fireAll(signal, () => fireDue(db, BATCH, share))));
    if (dueInMs < -OVERDUE_MS) taken.push(await fireAll(signal, () => fireOverdue(db, BATCH)));
    return taken.some((count) => count > 0);
  }

  /** Repeats until there are no more, or other servers have them. Returns how many schedules it took. */
  async function fireAll(signal: AbortSignal, fireSome: () => Promise<Decisions>): Promise<number> {
    let taken = 0;
    while (!signal.aborted) {
      const fired = await fireSome();
      await report(fired);
      taken += fired.taken;
      if (fired.read < BATCH || fired.taken === 0) break;
    }
    return taken;
  }

  /**
   * Not with every firing, because an occurrence may wait for hours. A failure is logged and tried again the next time:
   * what cannot be cleared up for one schedule must not keep others from firing. Returns the milliseconds until then.
   */
  async function upkeepIfDue(isWanted: boolean): Promise<number> {
    if (!isWanted) return MAX_PAUSE_MS;
    if (performance.now() >= upkeepAt) {
      upkeepAt = performance.now() + UPKEEP_EVERY_MS;
      await upkeep().catch((error: Error) => logger.warn({ event: 'schedules.failed', err: error }, UPKEEP_FAILED));
    }
    return Math.max(1, upkeepAt - performance.now());
  }

  async function upkeep(): Promise<void> {
    if (olderRulesAfter !== undefined) olderRulesAfter = await followNewRules(db, BATCH, olderRulesAfter);
    await replaceOlderRules(db, BATCH);
    await report(await fireWaiting(db, BATCH));
    const ids = await jobsToCancel(db, BATCH);
    if (ids.length > 0) await deps.cancel(ids);
  }

  async function report(fired: Decisions): Promise<void> {
    if (fired.jobs > 0) deps.onFired();
    deps.report(fired);
    if (fired.toCancel.length > 0) await deps.cancel(fired.toCancel);
  }

  const alarm = createAlarm({
    turn: tick,
    failure: { event: 'schedules.failed', message: 'schedules could not be fired, trying again' },
    logger,
  });
  return {
    start: alarm.start,
    stop: alarm.stop,
    wake() {
      upkeepAt = 0;
      alarm.within(0);
    },
  };
}
