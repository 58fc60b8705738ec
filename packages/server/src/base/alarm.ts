/**
 * Work that is done at the earliest moment that anybody has named: each turn says when the next is wanted, and others may
 * ask for an earlier one. Never two turns at once; who asks while one is under way gets another right after it. A
 * turn that fails is logged and tried again; it cannot end the process or the rhythm.
 */
import type { Logger } from 'pino';

export type Alarm = {
  start(): void;
  /** Resolves when no turn is under way. */
  stop(): Promise<void>;
  /** A turn is wanted in this many milliseconds at the latest. */
  within(ms: number): void;
};

export type AlarmOptions = {
  /** Gives the milliseconds until it is wanted again. Aborted: end after what is under way. */
  turn(signal: AbortSignal): Promise<number>;
  /** What is logged when a turn fails; `event` is the stable name. */
  failure: { event: string; message: string };
  logger: Logger;
};

const ERROR_PAUSE_MS = 1000;
/** A longer one rings at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Rang while a turn was under way. */
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
