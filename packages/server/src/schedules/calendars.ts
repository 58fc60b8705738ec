/** Named lists of days that schedules leave out. A change gives every schedule that uses one its next time anew. */
import { type Calendar, DroverError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const COLUMNS = `name, description, dates::text[] as dates, drover.iso(updated_at) as "updatedAt"`;

const list = sql('calendars')`select ${COLUMNS} from drover.calendar order by name limit 1000`;
const find = sql('calendar')`select ${COLUMNS} from drover.calendar where name = $1`;

const put = sql('put_calendar')`
with calendar as (
  insert into drover.calendar as c (name, description, dates)
  values ($1, $2, $3::text[]::date[])
  on conflict (name) do update set description = excluded.description, dates = excluded.dates, updated_at = now()
  where c.dates <> excluded.dates or c.description is distinct from excluded.description
  returning name
), rearmed as (
  update drover.schedule s
  set next_at = null, due_at = null, ended = false, version = s.version + 1, revision = s.revision + 1
  where s.id = any(array(
    -- in the order of ids, as everybody locks them
    select id from drover.schedule where calendars @> array[$1] and exists (select from calendar) order by id for update
  ))
  returning 1
)
select count(*)::int as schedules from rearmed`;

const remove = sql('delete_calendar')`
delete from drover.calendar
where name = $1 and not exists (select from drover.schedule where calendars @> array[$1])
returning 1`;

const user = sql(
  'calendar_user',
)`select name from drover.schedule where calendars @> array[$1::text] order by name limit 1`;

const datesOf = sql('calendar_dates')`
select name, dates::text[] as dates from drover.calendar where name = any($1::text[])`;

export function listCalendars(db: Runner): Promise<Calendar[]> {
  return db.run<Calendar>(list);
}

export async function getCalendar(db: Runner, name: string): Promise<Calendar> {
  const [calendar] = await db.run<Calendar>(find, [name]);
  if (!calendar) throw new DroverError('calendar_not_found', `there is no calendar ${name}`);
  return calendar;
}

/** Gives how many schedules get their next time anew. */
export async function putCalendar(
  db: Runner,
  name: string,
  description: string | undefined,
  dates: readonly string[],
): Promise<number> {
  const days = [...new Set(dates)].sort();
  const [row] = await db.run<{ schedules: number }>(put, [name, description ?? null, days]);
  return row?.schedules ?? 0;
}

/** Gives whether there was one. Throws calendar_in_use. */
export async function deleteCalendar(db: Runner, name: string): Promise<boolean> {
  if ((await db.run(remove, [name])).length > 0) return true;
  const [schedule] = await db.run<{ name: string }>(user, [name]);
  if (!schedule) return false;
  throw new DroverError('calendar_in_use', `calendar ${name} is used by the schedule ${schedule.name}`);
}

/** The days of all these calendars together. Throws calendar_not_found. */
export async function calendarDates(db: Runner, names: readonly string[] | undefined): Promise<string[]> {
  if (!names || names.length === 0) return [];
  const rows = await db.run<{ name: string; dates: string[] }>(datesOf, [names]);
  const missing = names.find((name) => !rows.some((row) => row.name === name));
  if (missing !== undefined) throw new DroverError('calendar_not_found', `there is no calendar ${missing}`);
  return rows.flatMap((row) => row.dates);
}
