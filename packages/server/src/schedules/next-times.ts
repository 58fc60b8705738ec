/**
 * Finds and writes the next time of schedules, after a change of them, of their calendars or of the time zone rules. A schedule
 * that has no further time has ended, and one whose definition cannot be read is paused: there is no fourth possibility, and
 * the database refuses any (constraint schedule_moves_on).
 */
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { readTimetables } from './read-timetables.js';
import { foundByRules, milliseconds } from './schedule-row.js';
import { type Definition, type Timetable, toNextTime } from './timing/timetable.js';
import { ZONE_RULES } from './timing/zone.js';

/** What the next time of a schedule depends on. */
export type ScheduleProgress = {
  id: string;
  name: string;
  revision: string;
  definition: Definition;
  fired: number;
  handledUntilMs: number;
};

export const PROGRESS_COLUMNS = `id::text as id, name, revision::text as revision, definition, fired::int as fired,
  ${milliseconds('handled_until')} as "handledUntilMs"`;

/** Also resumes: a schedule that gets a next time is not paused. */
const write = sql('schedules_write_next_times')`
with given as materialized (
  select *
  from json_to_recordset($1) as g(
    id bigint, revision bigint, handled_until timestamptz, next_at timestamptz, due_at timestamptz, next_offset_ms int,
    pause_note text
  )
), locked as materialized (
  select g.*, s.ctid as row_address
  from given g
  join drover.schedule s on ${byKey('s.id', 'g.id')} and s.revision = g.revision
  -- by the key of the batch: ordering by the row's own id would be a reason to walk through the index of all ids
  order by g.id
  for update of s skip locked
)
update drover.schedule s
set revision = s.revision + 1, handled_until = g.handled_until, next_at = g.next_at, due_at = g.due_at,
  ended = g.next_at is null and g.pause_note is null, ${foundByRules('$2')},
  paused_at = case when g.pause_note is not null then now() end,
  paused_by = case when g.pause_note is not null then 'drover' end,
  pause_note = g.pause_note
from locked g
-- the lock pins the address
where s.ctid = g.row_address and s.revision = g.revision
returning 1`;

/**
 * Finds the first time after `countFrom` for each of these schedules and writes it. Rows that have changed since they
 * were read, or that are locked, stay unchanged.
 */
export async function writeNextTimes<Row extends ScheduleProgress>(
  db: Runner,
  rows: readonly Row[],
  { countFrom = ({ handledUntilMs }: Row, _: Timetable) => handledUntilMs, rules = ZONE_RULES } = {},
): Promise<void> {
  if (rows.length === 0) return;
  const timetableOf = await readTimetables(db, rows);
  const given = rows.map((row) => nextTimeOf(row, () => timetableOf(row), countFrom));
  await db.run(write, [JSON.stringify(given), rules]);
}

function nextTimeOf<Row extends ScheduleProgress>(
  row: Row,
  readTimetable: () => Timetable,
  countFrom: (row: Row, timetable: Timetable) => number,
) {
  const { id, revision, definition, fired } = row;
  const handled = (ms: number) => ({ id, revision, handled_until: new Date(ms).toISOString() });
  try {
    const timetable = readTimetable();
    const fromMs = countFrom(row, timetable);
    const isFull = definition.maxOccurrences !== undefined && fired >= definition.maxOccurrences;
    const next = isFull ? undefined : timetable.occurrences.after(fromMs);
    return { ...handled(fromMs), ...(next !== undefined && toNextTime(timetable, next, timetable.dueAt(next))) };
  } catch (error) {
    return { ...handled(row.handledUntilMs), pause_note: unreadableNote(error as Error) };
  }
}

/** Why a schedule pauses itself when its definition, or one of its calendars, cannot be read. */
export function unreadableNote(error: Error): string {
  return `its times cannot be found: ${error.message}`;
}
