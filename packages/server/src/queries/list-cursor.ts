/**
 * The cursor of a list: the place of the last job of the page, and a digest of it with the filters, so that a damaged, invented or
 * foreign cursor is recognised. It is neither secret nor a protection: a caller who may list may list everything.
 */
import { createHash } from 'node:crypto';
import { DroverError, isUuid, type ListJobsQuery } from '@drover/protocol';

const ID_BYTES = 16;
const DIGEST_BYTES = 8;

/** The filters that decide which jobs are in the list, without what is shown of each. */
export type ListFilters = Omit<ListJobsQuery, 'include' | 'limit' | 'cursor'>;

export function encodeCursor(place: string, filters: ListFilters): string {
  return Buffer.concat([Buffer.from(place.replaceAll('-', ''), 'hex'), digest(place, filters)]).toString('base64url');
}

/** The place after which the list continues. Throws invalid_cursor. */
export function decodeCursor(cursor: string, filters: ListFilters): string {
  const bytes = Buffer.from(cursor, 'base64url');
  if (bytes.length === ID_BYTES + DIGEST_BYTES) {
    const place = toUuid(bytes.subarray(0, ID_BYTES).toString('hex'));
    if (isUuid(place) && digest(place, filters).equals(bytes.subarray(ID_BYTES))) return place;
  }
  throw new DroverError(
    'invalid_cursor',
    `cursor: expected the nextCursor of a list with the same filters, got ${JSON.stringify(cursor)}`,
    {
      issues: [{ field: 'cursor', message: 'expected the nextCursor of a list with the same filters', value: cursor }],
    },
  );
}

function digest(place: string, filters: ListFilters): Buffer {
  const { state, ...others } = filters;
  const given = Object.entries({ ...others, state: state && [...state].sort() }).filter(
    ([, value]) => value !== undefined,
  );
  const text = JSON.stringify([place, ...given.sort(([a], [b]) => (a < b ? -1 : 1))]);
  return createHash('sha256').update(text).digest().subarray(0, DIGEST_BYTES);
}

function toUuid(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
