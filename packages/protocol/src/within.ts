/** Waits with a limit. */

/** The longest delay that `setTimeout` supports. With a longer one, Node fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** What the promise resolves with; undefined if it has not settled in time. The timer is cleared in both cases. */
export async function within<Value>(ms: number, promise: Promise<Value>): Promise<{ value: Value } | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS), undefined);
  });
  try {
    return await Promise.race([promise.then((value) => ({ value })), late]);
  } finally {
    clearTimeout(timer);
  }
}
