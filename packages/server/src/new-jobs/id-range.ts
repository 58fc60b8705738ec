/** The time range of the ids of a batch of new jobs. It bounds the search for copies that have finished. */
import { isVersion7, msOfId } from '../base/id-time.js';

export type IdRange = {
  oldest: string;
  youngest: string;
  /** No job with one of the ids can have finished before this time. */
  historyFrom: string;
};

const HOUR_MS = 3_600_000;
/** How far a client's clock may be ahead of the database's without a repeated enqueue being missed. */
const CLOCK_MARGIN_MS = 24 * HOUR_MS;

/** Undefined if one of the ids is not a UUIDv7, which contains no time. */
export function idRangeOf(jobs: readonly { id: string }[]): IdRange | undefined {
  if (jobs[0] === undefined) return undefined;
  let oldest = jobs[0].id;
  let youngest = oldest;
  for (const { id } of jobs) {
    if (!isVersion7(id)) return undefined;
    if (id < oldest) oldest = id;
    if (id > youngest) youngest = id;
  }
  const fromMs = Math.max(0, msOfId(oldest) - CLOCK_MARGIN_MS);
  return { oldest, youngest, historyFrom: new Date(fromMs - (fromMs % HOUR_MS)).toISOString() };
}
