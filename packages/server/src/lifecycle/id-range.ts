/** Where the ids of a batch of new jobs lie in time, which bounds the search for copies that have finished. */
import { isVersion7, msOfId } from '../id-time.js';

export type IdRange = {
  oldest: string;
  youngest: string;
  /** A moment before which no job with one of the ids can have finished. */
  historyFrom: string;
};

const HOUR_MS = 3_600_000;
/** How far a client's clock may be ahead of the database's without a repeated enqueue being missed. */
const CLOCK_MARGIN_MS = 24 * HOUR_MS;

/** Undefined if one of the ids is no UUIDv7, which tells no time. */
export function idRangeOf(rows: readonly { job: { id: string } }[]): IdRange | undefined {
  if (rows[0] === undefined) return undefined;
  let oldest = rows[0].job.id;
  let youngest = oldest;
  for (const { job } of rows) {
    const { id } = job;
    if (!isVersion7(id)) return undefined;
    if (id < oldest) oldest = id;
    if (id > youngest) youngest = id;
  }
  return { oldest, youngest, historyFrom: hourText(msOfId(oldest) - CLOCK_MARGIN_MS) };
}

let lastHour = { hour: 0, text: textOfHour(0) };

/** The beginning of the hour of this moment. To write it anew for every job took a hundredth of the time of adding one. */
function hourText(ms: number): string {
  const hour = Math.max(0, Math.floor(ms / HOUR_MS));
  if (hour !== lastHour.hour) lastHour = { hour, text: textOfHour(hour) };
  return lastHour.text;
}

function textOfHour(hour: number): string {
  return new Date(hour * HOUR_MS).toISOString();
}
