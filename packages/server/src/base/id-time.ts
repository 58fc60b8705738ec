/**
 * The times that the id of a job implies. A client creates the id, so a UUIDv7 carries the client's clock: it may be
 * old (created long before the job was added) but is never more than a day ahead of the insert, because such an id is
 * refused. Other ids imply nothing.
 */

/** The ids from here on are made from idempotency keys (idOfKey). The schema has the same value in two indexes. */
export const FIRST_KEYED_ID = 'ff000000-0000-0000-0000-000000000000';

/** How far the time in a new id may be ahead of the present. */
export const ID_AHEAD_LIMIT_MS = 24 * 3_600_000;
/** Tolerated difference between the clocks of the server, which refuses such ids, and the database. */
const CLOCK_MARGIN_MS = 3_600_000;

const VERSION_POSITION = 14;
const NO_TIME = '-infinity';

/** The first 13 characters of a UUIDv7 of that time. Ids of one millisecond share them. */
function idPrefix(ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}

/**
 * A string that sorts after every UUIDv7 of that time or earlier, and before every later one ("-" sorts before ".").
 */
export function afterIdsOf(ms: number): string {
  return `${idPrefix(ms)}.`;
}

export function isVersion7(id: string): boolean {
  return id[VERSION_POSITION] === '7';
}

/** The time in a UUIDv7. */
export function msOfId(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** The earliest time at which a job with this id can have finished, as a PostgreSQL timestamp. */
export function earliestFinish(id: string): string {
  if (!isVersion7(id)) return NO_TIME;
  const ms = msOfId(id) - ID_AHEAD_LIMIT_MS - CLOCK_MARGIN_MS;
  return ms > 0 && ms < Date.UTC(9999, 0) ? new Date(ms).toISOString() : NO_TIME;
}

/** The largest UUIDv7 that a job created before this time can have. */
export function latestIdBefore(createdBeforeMs: number): string {
  return `${idPrefix(createdBeforeMs + ID_AHEAD_LIMIT_MS + CLOCK_MARGIN_MS)}-7fff-bfff-ffffffffffff`;
}

/** The largest UUIDv7 that any job can have now. Only ids of other kinds are larger. */
export function highestId(nowMs: number): string {
  return latestIdBefore(nowMs);
}
