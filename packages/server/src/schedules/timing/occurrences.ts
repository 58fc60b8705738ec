/**
 * The occurrences of a schedule. Pure: the next one depends only on the definition and the rules of its time zone.
 *
 * How a local time becomes a time in UTC. A zone is a list of periods with a constant offset. Within a period each local time
 * exists once. Where clocks go forward, the local times between two periods do not exist: `skip` leaves them out, `shift-forward`
 * reads them with the offset before the change (02:30 becomes 03:30), `before` with the offset after it (01:30). Where clocks go
 * back, local times exist in both periods: `first`, `last` or `both` count. Two local times with the same time in UTC are one
 * occurrence, so a shift never doubles an hourly pattern.
 *
 * Cost: each period is searched at most four times, and periods in which nothing can match are skipped. After MAX_STEPS the search
 * ends as if there were no further occurrence.
 */
import type { GapPolicy, RepeatPolicy, ScheduleSpec, ScheduleTiming } from '@drover/protocol';
import { type Cron, isOfEveryHour, parseCron } from './cron.js';
import { nextMatch } from './cron-match.js';
import { offsetAt, type Period, type Zone, zoneOf } from './zone.js';

export type Occurrences = {
  /** The first nominal time after `ms`, or undefined if there is none. */
  after(ms: number): number | undefined;
};

/** Dates such as 2030-12-25. */
export type Days = ReadonlySet<string>;

/** What decides the times, with the days of its calendars; many schedules share one set. */
export type TimingWithCalendars = {
  timing: Pick<ScheduleTiming, 'specs' | 'timeZone' | 'gap' | 'repeat' | 'exclude' | 'start' | 'end'>;
  calendars: readonly Days[];
};

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** No zone has or had a larger offset. */
const MAX_OFFSET_MS = 16 * HOUR_MS;
/** Enough for every change of clocks in 400 years, and for every day that a schedule can exclude. */
const MAX_STEPS = 20_000;
/** The last year with four digits. */
const LAST_MS = Date.UTC(9999, 0);

export function occurrencesOf({ timing, calendars }: TimingWithCalendars): Occurrences {
  const zone = zoneOf(timing.timeZone);
  const specs = timing.specs.map((spec) => specTimes(spec, timing, zone));
  const ownDays = timing.exclude?.dates ?? [];
  const excluded = ownDays.length === 0 ? calendars : [...calendars, new Set(ownDays)];
  const startMs = timing.start === undefined ? Number.NEGATIVE_INFINITY : Date.parse(timing.start);
  const endMs = timing.end === undefined ? LAST_MS : Math.min(LAST_MS, Date.parse(timing.end));

  function isExcluded(date: string): boolean {
    return excluded.some((days) => days.has(date));
  }

  function earliest(ms: number): number | undefined {
    let best: number | undefined;
    for (const spec of specs) {
      const next = spec.after(ms);
      if (next !== undefined && (best === undefined || next < best)) best = next;
    }
    return best;
  }

  return {
    after(ms) {
      let from = Math.max(ms, startMs - 1);
      for (let steps = 0; steps < MAX_STEPS; steps++) {
        const next = earliest(from);
        if (next === undefined || next > endMs) return undefined;
        if (excluded.length === 0 || !isExcluded(localDate(zone, next))) return next;
        // the search continues after the excluded day, but not beyond a change of clocks in it
        from = Math.max(next, endOfLocalDay(zone, next) - 1);
      }
      return undefined;
    },
  };
}

/** The policy for local times that exist twice, with its default. */
export function repeatPolicy(spec: ScheduleSpec, given: RepeatPolicy | undefined): RepeatPolicy {
  if (given !== undefined) return given;
  return spec.kind === 'cron' && isOfEveryHour(parseCron(spec.cron)) ? 'both' : 'first';
}

function localDate(zone: Zone, ms: number): string {
  return new Date(ms + offsetAt(zone, ms)).toISOString().slice(0, 10);
}

/** The end of the local day of `ms`, or of its period if that is earlier. */
function endOfLocalDay(zone: Zone, ms: number): number {
  const { offsetMs, end } = zone.periodAt(ms);
  const wall = ms + offsetMs;
  return Math.min(end, (Math.floor(wall / DAY_MS) + 1) * DAY_MS - offsetMs);
}

function specTimes(spec: ScheduleSpec, { gap, repeat }: TimingWithCalendars['timing'], zone: Zone): Occurrences {
  if (spec.kind === 'interval') return intervalTimes(spec.every, Date.parse(spec.anchor));
  if (spec.kind === 'times') return givenTimes(spec.at.map((time) => Date.parse(time)));
  return cronTimes(parseCron(spec.cron), zone, gap, repeatPolicy(spec, repeat));
}

/** Counted from the anchor and not from the last time, so there is no drift. */
function intervalTimes(everyMs: number, anchorMs: number): Occurrences {
  return {
    after: (ms) => (ms < anchorMs ? anchorMs : anchorMs + (Math.floor((ms - anchorMs) / everyMs) + 1) * everyMs),
  };
}

function givenTimes(sorted: readonly number[]): Occurrences {
  return { after: (ms) => sorted.find((time) => time > ms) };
}

function cronTimes(cron: Cron, zone: Zone, gap: GapPolicy, repeat: RepeatPolicy): Occurrences {
  return {
    after(ms) {
      let from = ms + 1;
      for (let steps = 0; steps < MAX_STEPS; steps++) {
        if (from >= LAST_MS) return undefined;
        const period = zone.periodAt(from);
        const found = firstIn(cron, zone, period, from, gap, repeat);
        if (found !== undefined) return found;
        // no match before the end of this period: continue where the next local time can be at the earliest
        const wall = nextMatch(cron, period.end - MAX_OFFSET_MS);
        if (wall === undefined) return undefined;
        from = Math.max(period.end, wall - MAX_OFFSET_MS);
      }
      return undefined;
    },
  };
}

/** The first match at or after `from` in the period, with the gaps at both of its ends. */
function firstIn(
  cron: Cron,
  zone: Zone,
  period: Period,
  from: number,
  gap: GapPolicy,
  repeat: RepeatPolicy,
): number | undefined {
  const { start, end, offsetMs } = period;
  const offsetBefore = offsetAt(zone, start - 1);
  const offsetAfter = offsetAt(zone, end);
  let first = start + offsetMs;
  let last = end + offsetMs;
  // the local times that this period shares with the one before or after it
  if (repeat === 'first' && offsetBefore > offsetMs) first = start + offsetBefore;
  if (repeat === 'last' && offsetAfter < offsetMs) last = end + offsetAfter;
  const ordinary = matchBetween(cron, Math.max(first, from + offsetMs), last);
  const candidates = [ordinary === undefined ? undefined : ordinary - offsetMs];
  if (gap === 'shift-forward' && offsetMs > offsetBefore) {
    candidates.push(
      shifted(cron, from, { wallFrom: start + offsetBefore, wallTo: start + offsetMs, offset: offsetBefore }),
    );
  }
  if (gap === 'before' && offsetAfter > offsetMs) {
    candidates.push(shifted(cron, from, { wallFrom: end + offsetMs, wallTo: end + offsetAfter, offset: offsetAfter }));
  }
  const matches = candidates.filter((ms) => ms !== undefined && ms >= from && ms < end) as number[];
  return matches.length === 0 ? undefined : Math.min(...matches);
}

/** The first time at or after `from` that a local time of the gap becomes when it is read with this offset. */
function shifted(
  cron: Cron,
  from: number,
  gap: { wallFrom: number; wallTo: number; offset: number },
): number | undefined {
  const wall = matchBetween(cron, Math.max(gap.wallFrom, from + gap.offset), gap.wallTo);
  return wall === undefined ? undefined : wall - gap.offset;
}

function matchBetween(cron: Cron, fromWall: number, toWall: number): number | undefined {
  if (fromWall >= toWall) return undefined;
  const wall = nextMatch(cron, fromWall);
  return wall !== undefined && wall < toWall ? wall : undefined;
}
