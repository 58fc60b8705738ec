/** Whether a promise settles in time. The timer is cleared in both cases. */
import { MAX_TIMER_MS } from '../timer-limit.js';

export async function within(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS), false);
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
