/**
 * The times of one schedule: its nominal times, and when each is due. Pure and cheap (about 3 µs), so a timetable is
 * created on demand; a cache costs more in garbage collection than it saves.
 */
import type { ScheduleTiming } from '@drover/protocol';
import { type Days, type Occurrences, occurrencesOf } from './occurrences.js';
import { delayOf } from './spread-and-jitter.js';
import { offsetAt, zoneOf } from './zone.js';

/** As the database keeps it: the schedule without its name and its jobs. */
export type Definition = ScheduleTiming;

export type Timetable = {
  name: string;
  definition: Definition;
  occurrences: Occurrences;
  dueAt(nominalMs: number): number;
};

/** A next time as the database keeps it. */
export type NextTime = { next_at: string; due_at: string; next_offset_ms: number };

/** `calendars`: the days of each calendar that the schedule excludes. */
export function createTimetable(name: string, definition: Definition, calendars: readonly Days[]): Timetable {
  return {
    name,
    definition,
    occurrences: occurrencesOf({ timing: definition, calendars }),
    dueAt: (nominalMs) => nominalMs + delayOf(name, nominalMs, definition),
  };
}

export function toNextTime({ definition }: Timetable, nominalMs: number, dueMs: number): NextTime {
  return {
    next_at: new Date(nominalMs).toISOString(),
    due_at: new Date(dueMs).toISOString(),
    next_offset_ms: offsetAt(zoneOf(definition.timeZone), nominalMs),
  };
}
