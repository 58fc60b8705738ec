/**
 * Gives a schedule without a next time its next one: after it was made, changed or resumed, after one of its calendars
 * changed, and if whoever did that died half-way. It counts from handled_until, so nothing in between is lost.
 */
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { compiledFor } from './fire-due.js';
import { foundByRules, milliseconds } from './schedule-row.js';
import { type Definition, type Timetable, toNextTime } from './timing/timetable.js';
import { ZONE_RULES } from './timing/zone.js';

export type ArmableSchedule = {
  id: string;
  name: string;
  version: number;
  revision: string;
  definition: Definition;
  fired: number;
  handledUntilMs: number;
};

export const ARMABLE_COLUMNS = `id::text as id, name, version, revision::text as revision, definition, fired::int as fired,
  ${milliseconds('handled_until')} as "handledUntilMs"`;
export const UNARMED = 'due_at is null and paused_at is null and not ended';

const unarmed = sql('schedules_unarmed')`
select ${ARMABLE_COLUMNS} from drover.schedule where ${UNARMED} order by schedule.id limit $1`;

const unarmedOne = sql('schedule_unarmed')`
select ${ARMABLE_COLUMNS} from drover.schedule where name = $1 and ${UNARMED}`;

const arm = sql('schedules_arm')`
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
  -- of the batch: an order by the row's own id would be a reason to walk through the index of all ids
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

/** Arms up to `limit` schedules and gives how many it was. */
export async function armSchedules(db: Runner, limit: number): Promise<number> {
  return writeNextTimes(db, await db.run<ArmableSchedule>(unarmed, [limit]));
}

export async function armSchedule(db: Runner, name: string): Promise<void> {
  await writeNextTimes(db, await db.run<ArmableSchedule>(unarmedOne, [name]));
}

/** Gives those whose row is still as it was read their first time after `countFrom`, and says how many they are. */
export async function writeNextTimes<Row extends ArmableSchedule>(
  db: Runner,
  rows: Row[],
  { countFrom = ({ handledUntilMs }: Row, _: Timetable) => handledUntilMs, rules = ZONE_RULES } = {},
): Promise<number> {
  if (rows.length === 0) return 0;
  const given = await Promise.all(
    rows.map((row) =>
      nextOf(row, async () => {
        const compiled = await compiledFor(db, row);
        return { compiled, fromMs: countFrom(row, compiled) };
      }),
    ),
  );
  return (await db.run(arm, [JSON.stringify(given), rules])).length;
}

async function nextOf(
  { id, revision, definition, fired, handledUntilMs }: ArmableSchedule,
  compile: () => Promise<{ compiled: Timetable; fromMs: number }>,
) {
  const handled = (ms: number) => ({ id, revision, handled_until: new Date(ms).toISOString() });
  try {
    const { compiled, fromMs } = await compile();
    const isFull = definition.maxOccurrences !== undefined && fired >= definition.maxOccurrences;
    const next = isFull ? undefined : compiled.occurrences.after(fromMs);
    return { ...handled(fromMs), ...(next !== undefined && toNextTime(compiled, next, compiled.dueAt(next))) };
  } catch (error) {
    // it would be found here again and again
    return { ...handled(handledUntilMs), pause_note: `its times cannot be found: ${(error as Error).message}` };
  }
}
