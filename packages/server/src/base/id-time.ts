/**
 * What the id of a job tells about its times. A client makes the id, so a UUIDv7 carries the client's
 * clock: it may be old (made long before the job was added) but never lies more than a day ahead of the
 * adding, because such an id is refused. Ids of other kinds tell nothing.
 */

/** How far ahead of the present the time in a new id may lie. */
export const ID_AHEAD_LIMIT_MS = 24 * 3_600_000;
/** Between the server that refuses such ids and the database that notes the times. */
const CLOCK_MARGIN_MS = 3_600_000;

const VERSION_POSITION = 14;
const NO_TIME = '-infinity';

/** The first 13 characters of a UUIDv7 of that moment; ids of one millisecond share them. */
function idPrefix(ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}

/** A text behind every UUIDv7 of that moment or an earlier one, and before every later one ("-" comes before "."). */
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

/** The moment before which a job with this id cannot have finished, as PostgreSQL reads it. */
export function earliestFinish(id: string): string {
  if (!isVersion7(id)) return NO_TIME;
  const ms = msOfId(id) - ID_AHEAD_LIMIT_MS - CLOCK_MARGIN_MS;
  return ms > 0 && ms < Date.UTC(9999, 0) ? new Date(ms).toISOString() : NO_TIME;
}

/** The largest UUIDv7 that a job created before this moment can have. */
export function latestIdBefore(createdBeforeMs: number): string {
  return `${idPrefix(createdBeforeMs + ID_AHEAD_LIMIT_MS + CLOCK_MARGIN_MS)}-7fff-bfff-ffffffffffff`;
}

/** The largest UUIDv7 that any job can have now. Above it are only ids of other kinds. */
export function highestId(nowMs: number): string {
  return latestIdBefore(nowMs);
}
