/**
 * Gives a schedule without a next time its next one: after it was made, changed or resumed, after one of its calendars
 * changed, and if whoever did that died half-way. It counts from handled_until, so nothing in between is lost.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Definition } from './compiled.js';
import { compiledFor } from './fire-due.js';
import { milliseconds } from './schedule-row.js';

type UnarmedSchedule = {
  id: string;
  name: string;
  version: number;
  revision: string;
  definition: Definition;
  fired: number;
  handledUntilMs: number;
};

const COLUMNS = `id::text as id, name, version, revision::text as revision, definition, fired::int as fired,
  ${milliseconds('handled_until')} as "handledUntilMs"`;
const UNARMED = 'due_at is null and paused_at is null and not ended';

const unarmed = sql('schedules_unarmed')`
select ${COLUMNS} from drover.schedule where ${UNARMED} order by id limit $1`;

const unarmedOne = sql('schedule_unarmed')`
select ${COLUMNS} from drover.schedule where name = $1 and ${UNARMED}`;

const arm = sql('schedules_arm')`
with given as materialized (
  select *
  from json_to_recordset($1) as g(id bigint, revision bigint, next_at timestamptz, due_at timestamptz, pause_note text)
), locked as materialized (
  select g.*, s.ctid as row_address
  from given g
  join drover.schedule s on s.id = g.id and s.revision = g.revision
  order by s.id
  for update of s skip locked
)
update drover.schedule s
set revision = s.revision + 1, next_at = g.next_at, due_at = g.due_at, ended = g.next_at is null and g.pause_note is null,
  paused_at = case when g.pause_note is not null then now() end,
  paused_by = case when g.pause_note is not null then 'drover' end,
  pause_note = g.pause_note
from locked g
-- the lock pins the address
where s.ctid = g.row_address and s.revision = g.revision
returning 1`;

/** Arms up to `limit` schedules and gives how many it was. */
export async function armSchedules(db: Runner, limit: number): Promise<number> {
  return armAll(db, await db.run<UnarmedSchedule>(unarmed, [limit]));
}

export async function armSchedule(db: Runner, name: string): Promise<void> {
  await armAll(db, await db.run<UnarmedSchedule>(unarmedOne, [name]));
}

async function armAll(db: Runner, rows: UnarmedSchedule[]): Promise<number> {
  if (rows.length === 0) return 0;
  const given = await Promise.all(rows.map((row) => nextOf(db, row)));
  return (await db.run(arm, [JSON.stringify(given)])).length;
}

async function nextOf(db: Runner, row: UnarmedSchedule) {
  const { id, revision, definition } = row;
  try {
    const { occurrences, dueAt } = await compiledFor(db, row);
    const isFull = definition.maxOccurrences !== undefined && row.fired >= definition.maxOccurrences;
    const next = isFull ? undefined : occurrences.after(row.handledUntilMs);
    if (next === undefined) return { id, revision };
    return { id, revision, next_at: new Date(next).toISOString(), due_at: new Date(dueAt(next)).toISOString() };
  } catch (error) {
    // it would be found here again and again
    return { id, revision, pause_note: `its times cannot be found: ${(error as Error).message}` };
  }
}
