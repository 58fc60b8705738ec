/** The longest delay that `setTimeout` supports. With a longer one, Node fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;
