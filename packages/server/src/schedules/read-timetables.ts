/** From rows of the database to timetables: a schedule that excludes calendars needs their days. */
import { DroverError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Days } from './timing/occurrences.js';
import { createTimetable, type Definition, type Timetable } from './timing/timetable.js';

type Calendars = ReadonlyMap<string, Days>;

const read = sql('calendar_days')`
select name, dates::text[] as dates from drover.calendar where name = any($1::text[])`;

/** In the order of their names, so that two transactions cannot wait for each other. */
const lock = sql('calendar_days_locked')`
select name, dates::text[] as dates from drover.calendar where name = any($1::text[]) order by name for share`;

/**
 * Returns the timetable of each of these schedules; one statement reads the calendars of all. The returned function
 * throws for a definition that cannot be read, so that one broken schedule does not affect the others of its batch.
 */
export async function readTimetables<Row extends { name: string; definition: Definition }>(
  db: Runner,
  rows: readonly Row[],
): Promise<(row: Row) => Timetable> {
  const calendars = await daysOf(db, read, [...new Set(rows.flatMap(({ definition }) => calendarsOf(definition)))]);
  return ({ name, definition }) => createTimetable(name, definition, pick(calendars, calendarsOf(definition)));
}

/** The days of each of these calendars. Throws calendar_not_found. */
export async function readCalendars(db: Runner, names: readonly string[] = []): Promise<Days[]> {
  return pick(await daysOf(db, read, names), names);
}

/**
 * The same, and no calendar of them changes before the transaction ends: a change of a calendar must see the schedule that is about
 * to use it. Every transaction locks calendars before schedules.
 */
export async function lockCalendars(tx: Runner, names: readonly string[] = []): Promise<Days[]> {
  return pick(await daysOf(tx, lock, names), names);
}

async function daysOf(db: Runner, statement: typeof read, names: readonly string[]): Promise<Calendars> {
  if (names.length === 0) return new Map();
  const rows = await db.run<{ name: string; dates: string[] }>(statement, [names]);
  return new Map(rows.map(({ name, dates }) => [name, new Set(dates)]));
}

function pick(calendars: Calendars, names: readonly string[]): Days[] {
  return names.map((name) => {
    const days = calendars.get(name);
    if (!days) throw calendarNotFound(name);
    return days;
  });
}

function calendarsOf({ exclude }: Definition): readonly string[] {
  return exclude?.calendars ?? [];
}

export function calendarNotFound(name: string): DroverError {
  return new DroverError('calendar_not_found', `there is no calendar ${name}`);
}
