/**
 * Runs work at the earliest requested time: each turn returns when the next is wanted, and callers may ask for an
 * earlier one. Turns never overlap; a request during a turn causes another one right after it. A failed turn is
 * logged and tried again; it cannot end the process or stop later turns.
 */
import { MAX_TIMER_MS } from '@drover/protocol/within';
import type { Logger } from 'pino';

export type Alarm = {
  start(): void;
  /** Resolves when no turn is running. */
  stop(): Promise<void>;
  /** Asks for a turn in this many milliseconds at the latest. */
  within(ms: number): void;
};

export type AlarmOptions = {
  /** Returns the milliseconds until the next turn is wanted. When aborted, it ends after the current step. */
  turn(signal: AbortSignal): Promise<number>;
  /** Logged when a turn fails; `event` is the stable name. */
  failure: { event: string; message: string };
  logger: Logger;
};

const ERROR_PAUSE_MS = 1000;
/** The value of `wakeAt` after the alarm rang during a turn. */
const LONG_AGO = Number.NEGATIVE_INFINITY;

export function createAlarm({ turn, failure, logger }: AlarmOptions): Alarm {
  const stopping = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let wakeAt = Number.POSITIVE_INFINITY;
  let underWay: Promise<void> | undefined;
  let started = false;

  function within(ms: number): void {
    const inMs = Math.min(Math.max(0, ms), MAX_TIMER_MS);
    const at = performance.now() + inMs;
    if (!started || stopping.signal.aborted || at >= wakeAt) return;
    clearTimeout(timer);
    wakeAt = at;
    timer = setTimeout(ring, inMs);
  }

  function ring(): void {
    if (underWay) {
      wakeAt = LONG_AGO;
      return;
    }
    wakeAt = Number.POSITIVE_INFINITY;
    underWay = turn(stopping.signal)
      .catch((error: Error) => {
        logger.warn({ event: failure.event, err: error }, failure.message);
        return ERROR_PAUSE_MS;
      })
      .then((pauseMs) => {
        underWay = undefined;
        if (stopping.signal.aborted) return;
        if (wakeAt === LONG_AGO) ring();
        else within(pauseMs);
      });
  }

  return {
    start() {
      started = true;
      within(0);
    },
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await underWay;
    },
    within,
  };
}
