/** Where the ids of a batch of new jobs lie in time, which bounds the search for copies that have finished. */
import { isVersion7, msOfId } from '../id-time.js';

export type IdRange = {
  oldest: string;
  youngest: string;
  /** The earliest moment at which a job with one of the ids can have finished. */
  historyFrom: string;
};

/** How far a client's clock may be ahead of the database's without a repeated enqueue being missed. */
const CLOCK_MARGIN_MS = 24 * 3_600_000;

/** Undefined if one of the ids is no UUIDv7, which tells no time. */
export function idRangeOf(ids: readonly string[]): IdRange | undefined {
  let [oldest] = ids;
  let youngest = oldest;
  if (oldest === undefined || youngest === undefined) return undefined;
  for (const id of ids) {
    if (!isVersion7(id)) return undefined;
    if (id < oldest) oldest = id;
    if (id > youngest) youngest = id;
  }
  const historyFrom = new Date(Math.max(0, msOfId(oldest) - CLOCK_MARGIN_MS)).toISOString();
  return { oldest, youngest, historyFrom };
}
