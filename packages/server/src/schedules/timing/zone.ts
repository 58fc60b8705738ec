/**
 * A time zone as a list of periods with a constant offset. Intl is asked for the offset day by day, and where two days differ the
 * change is found by bisection. The module keeps the periods by zone and year: a question to Intl takes about 3 µs, and the answer
 * never changes while the process runs.
 *
 * Rejected: temporal-polyfill, which takes 8 ms to find a change and 70 ms for a zone without changes.
 */

/** From `start` (inclusive) to `end` (exclusive), in milliseconds; local time is `offsetMs` ahead of UTC. */
export type Period = { readonly start: number; readonly end: number; readonly offsetMs: number };

export type Zone = {
  readonly name: string;
  /** The period that `ms` lies in. If the offset is constant for years, it ends at the end of a year, at least a year away. */
  periodAt(ms: number): Period;
};

const DAY_MS = 86_400_000;
/** More than there are zones. */
const MAX_ZONES = 1000;
const MAX_YEARS_A_ZONE = 500;

/** The release of the time zone rules that Intl uses, such as 2025b; later ones are greater. Empty if Node does not know it. */
export const ZONE_RULES = process.versions.tz ?? '';

const zones = new Map<string, Zone>();

export function zoneOf(name: string): Zone {
  const known = zones.get(name);
  if (known) return known;
  if (zones.size >= MAX_ZONES) zones.clear();
  const zone = createZone(name);
  zones.set(name, zone);
  return zone;
}

export function offsetAt(zone: Zone, ms: number): number {
  return zone.periodAt(ms).offsetMs;
}

function createZone(name: string): Zone {
  const years = new Map<number, Period[]>();
  const joined = new Map<number, Period[]>();
  const ask = offsetReader(name);

  function periodsOf(year: number): Period[] {
    const known = years.get(year);
    if (known) return known;
    if (years.size >= MAX_YEARS_A_ZONE) years.clear();
    const periods = findPeriods(ask, Date.UTC(year, 0), Date.UTC(year + 1, 0));
    years.set(year, periods);
    return periods;
  }

  /** The periods of a year, joined with those of the years before and after it where the offset is the same. */
  function joinedOf(year: number): Period[] {
    const known = joined.get(year);
    if (known) return known;
    if (joined.size >= MAX_YEARS_A_ZONE) joined.clear();
    const periods = [...periodsOf(year)];
    const before = periodsOf(year - 1).at(-1) as Period;
    const after = periodsOf(year + 1)[0] as Period;
    const first = periods[0] as Period;
    if (before.offsetMs === first.offsetMs) periods[0] = { ...first, start: before.start };
    const last = periods.at(-1) as Period;
    if (after.offsetMs === last.offsetMs) periods[periods.length - 1] = { ...last, end: after.end };
    joined.set(year, periods);
    return periods;
  }

  return {
    name,
    periodAt: (ms) => joinedOf(new Date(ms).getUTCFullYear()).find((period) => ms < period.end) as Period,
  };
}

function findPeriods(ask: (ms: number) => number, start: number, end: number): Period[] {
  const periods: Period[] = [];
  let from = start;
  let offsetMs = ask(start);
  for (let day = start; day < end; day += DAY_MS) {
    const next = ask(Math.min(day + DAY_MS, end));
    if (next === offsetMs) continue;
    const change = changeBetween(ask, day, Math.min(day + DAY_MS, end), offsetMs);
    periods.push({ start: from, end: change, offsetMs });
    from = change;
    offsetMs = next;
  }
  if (from < end) periods.push({ start: from, end, offsetMs });
  return periods;
}

/** The first time whose offset differs from that of `low`. */
function changeBetween(ask: (ms: number) => number, low: number, high: number, offsetMs: number): number {
  let [before, after] = [low, high];
  while (after - before > 1000) {
    const middle = Math.floor((before + after) / 2000) * 1000;
    if (ask(middle) === offsetMs) before = middle;
    else after = middle;
  }
  return after;
}

function offsetReader(timeZone: string): (ms: number) => number {
  if (timeZone === 'UTC') return () => 0;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    hourCycle: 'h23',
    ...{ year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });
  return (ms) => {
    // "3/31/2030, 03:00:00": splitting it is twice as fast as formatToParts
    const [month, day, year, hour, minute, second] = format.format(ms).split(/\D+/).map(Number) as number[] & {
      length: 6;
    };
    const wall = Date.UTC(year as number, (month as number) - 1, day, hour, minute, second);
    return wall - Math.floor(ms / 1000) * 1000;
  };
}
