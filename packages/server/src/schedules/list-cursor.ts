/** Cursors of the lists of schedules and occurrences: the position of the last item of the page. */
import { DroverError } from '@drover/protocol';

export function toCursor(text: string): string {
  return Buffer.from(text).toString('base64url');
}

/** Throws invalid_cursor. */
export function nameFromCursor(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  if (text !== '' && !/[\0\ufffd]/.test(text)) return text;
  throw invalidCursor(cursor);
}

/** A time with microseconds. Throws invalid_cursor. */
export function timeFromCursor(cursor: string): string {
  const time = nameFromCursor(cursor);
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(time) && !Number.isNaN(Date.parse(time))) return time;
  throw invalidCursor(cursor);
}

function invalidCursor(cursor: string): DroverError {
  const message = 'expected the nextCursor of the same list';
  return new DroverError('invalid_cursor', `cursor: ${message}, got ${JSON.stringify(cursor)}`, {
    issues: [{ field: 'cursor', message, value: cursor }],
  });
}
