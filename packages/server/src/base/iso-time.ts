/** Times of rows as the API shows them. */

const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** A row may have a time that no date of JavaScript can hold, such as `infinity`. A list must not fail because of it. */
export function isoTime(date: Date): string {
  const ms = Number(date);
  return new Date(Number.isNaN(ms) ? LATEST_MS : Math.min(Math.max(ms, 0), LATEST_MS)).toISOString();
}

export function isoTimeOrNull(date: Date | null | undefined): string | null {
  return date === null || date === undefined ? null : isoTime(date);
}
