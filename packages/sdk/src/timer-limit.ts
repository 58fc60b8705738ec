/** The longest delay `setTimeout` can count; above it Node fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;
