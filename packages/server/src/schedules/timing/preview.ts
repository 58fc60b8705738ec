/** The next times of a schedule in UTC and local time, with notes on changes of clocks. */
import type { Preview } from '@drover/protocol';
import { describeSchedule } from './describe.js';
import { occurrencesOf, repeatPolicy } from './occurrences.js';
import type { Timetable } from './timetable.js';
import { offsetAt, type Zone, zoneOf } from './zone.js';

export function previewSchedule(schedule: Timetable, afterMs: number, count: number): Preview {
  const { definition } = schedule;
  const zone = zoneOf(definition.timeZone);
  const occurrences: Preview['occurrences'] = [];
  let last: number | undefined = afterMs;
  while (occurrences.length < Math.min(count, definition.maxOccurrences ?? count)) {
    last = schedule.occurrences.after(last);
    if (last === undefined) break;
    occurrences.push({
      at: new Date(last).toISOString(),
      local: localText(zone, last),
      dueAt: new Date(schedule.dueAt(last)).toISOString(),
      note: clockNote(schedule, zone, last),
    });
  }
  return {
    text: describeSchedule(definition),
    timeZone: definition.timeZone,
    gap: definition.gap,
    repeat: definition.specs.map((spec) => repeatPolicy(spec, definition.repeat)),
    occurrences,
  };
}

/** The local time with its offset: `2030-03-31T03:30:00+02:00`. */
function localText(zone: Zone, ms: number): string {
  const offsetMs = offsetAt(zone, ms);
  const wall = new Date(ms + offsetMs).toISOString().slice(0, 19);
  const minutes = Math.floor(Math.abs(offsetMs) / 60_000);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${wall}${offsetMs < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** Only cron patterns mean local times. */
function clockNote({ definition }: Timetable, zone: Zone, ms: number): string | null {
  const patterns = definition.specs.filter((spec) => spec.kind === 'cron');
  if (patterns.length === 0) return null;
  const { start, end, offsetMs } = zone.periodAt(ms);
  const offsetBefore = offsetAt(zone, start - 1);
  const offsetAfter = offsetAt(zone, end);
  const without = { ...definition, specs: patterns, gap: 'skip' as const, start: undefined, end: undefined };
  const isShifted = () => occurrencesOf({ timing: without, calendars: [] }).after(ms - 1) !== ms;
  if (offsetBefore < offsetMs && ms < start + offsetMs - offsetBefore && isShifted()) {
    return `${wallClock(ms + offsetBefore)} does not exist on this day: clocks go forward; shifted`;
  }
  if (offsetAfter > offsetMs && ms >= end - (offsetAfter - offsetMs) && isShifted()) {
    return `${wallClock(ms + offsetAfter)} does not exist on this day: clocks go forward; moved before the change`;
  }
  if (offsetBefore > offsetMs && ms < start + offsetBefore - offsetMs) {
    return `${wallClock(ms + offsetMs)} comes twice on this day: clocks go back; the second of the two`;
  }
  if (offsetAfter < offsetMs && ms >= end - (offsetMs - offsetAfter)) {
    return `${wallClock(ms + offsetMs)} comes twice on this day: clocks go back; the first of the two`;
  }
  return null;
}

function wallClock(wallMs: number): string {
  return new Date(wallMs).toISOString().slice(11, 16);
}
