/** The time limit of one attempt: aborts its signal when the time is over. */

import { MAX_TIMER_MS } from '@drover/protocol/within';
import { TimeoutError } from '../errors.js';
import type { Attempt } from './attempt.js';

/** A handler that has not settled this long after its time limit is worth a warning. */
const OVERDUE_MS = 5000;

/** `overdue` is called if the attempt still runs some seconds after its limit. */
export function limitTime(attempt: Attempt, timeoutMs: number, overdue?: () => void): { stop(): void } {
  let leftMs = timeoutMs;
  let timer: NodeJS.Timeout;
  const arm = () => {
    // A timer is limited to 24 days, so longer limits are counted in parts.
    const partMs = Math.min(leftMs, MAX_TIMER_MS);
    leftMs -= partMs;
    timer = setTimeout(leftMs > 0 ? arm : expire, partMs);
  };
  const expire = () => {
    attempt.interrupt('timeout', new TimeoutError(`the attempt took longer than its timeout of ${timeoutMs} ms`));
    if (overdue !== undefined) timer = setTimeout(overdue, OVERDUE_MS);
  };
  arm();
  return { stop: () => clearTimeout(timer) };
}
