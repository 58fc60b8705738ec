/**
 * Named lists of days that schedules leave out. A change of one is a transaction together with the next times of every schedule
 * that uses it.
 *
 * The order of locks is: calendars by their names, then schedules by their ids. A put holds the calendars of its schedule, so a
 * change of a calendar sees every schedule that uses it.
 */
import { type Calendar, DroverError } from '@drover/protocol';
import type { Runner, TransactionRunner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { fireBeforeChange, reportAll } from './fire-before-change.js';
import type { Decisions } from './fire-due.js';
import { PROGRESS_COLUMNS, type ScheduleProgress, writeNextTimes } from './next-times.js';
import { calendarNotFound } from './read-timetables.js';
import { IGNORE, type Report } from './report.js';
import { CHANGED_NOW } from './schedule-row.js';

/** Schedules that get their next time in one statement. */
const BATCH = 500;

const COLUMNS = `name, description, dates::text[] as dates, drover.iso(updated_at) as "updatedAt"`;

const list = sql('calendars')`select ${COLUMNS} from drover.calendar order by name limit 1000`;
const find = sql('calendar')`select ${COLUMNS} from drover.calendar where name = $1`;

/** Creates the calendar or, if it exists, locks it and returns no row: see createOrLock in put-schedule. */
const createOrLock = sql('calendar_create_or_lock')`
insert into drover.calendar as c (name, description, dates)
values ($1, $2, $3::text[]::date[])
on conflict (name) do update set updated_at = c.updated_at where false
returning 1`;

const isSame = sql('calendar_is_same')`
select from drover.calendar where name = $1 and description is not distinct from $2 and dates = $3::text[]::date[]`;

const update = sql('calendar_update')`
update drover.calendar set description = $2, dates = $3::text[]::date[], updated_at = now() where name = $1`;

const lockUsers = sql('calendar_lock_users')`
select id::text as id from drover.schedule where calendars @> array[$1::text] order by schedule.id for update`;

const changeUsers = sql('calendar_change_users')`
update drover.schedule
set version = version + 1, ended = ended and paused_at is null, ${CHANGED_NOW}
where id = any($1::bigint[])
returning ${PROGRESS_COLUMNS}, paused_at is not null as paused`;

const lock = sql('calendar_lock')`select from drover.calendar where name = $1 for update`;
const remove = sql('calendar_delete')`delete from drover.calendar where name = $1`;
const user = sql('calendar_user')`
select name from drover.schedule where calendars @> array[$1::text] order by name limit 1`;

export function listCalendars(db: Runner): Promise<Calendar[]> {
  return db.run<Calendar>(list);
}

export async function getCalendar(db: Runner, name: string): Promise<Calendar> {
  const [calendar] = await db.run<Calendar>(find, [name]);
  if (!calendar) throw calendarNotFound(name);
  return calendar;
}

/** Returns how many schedules have followed the change. */
export async function putCalendar(
  db: Pick<TransactionRunner, 'transaction'>,
  name: string,
  description: string | undefined,
  dates: readonly string[],
  report: Report = IGNORE,
): Promise<number> {
  const values = [name, description ?? null, [...new Set(dates)].sort()];
  const { schedules, decided } = await db.transaction(async (tx) => {
    const isCreated = (await tx.run(createOrLock, values)).length > 0;
    if (isCreated || (await tx.run(isSame, values)).length > 0) return { schedules: 0, decided: [] };
    return change(tx, name, values);
  });
  reportAll(report, decided);
  return schedules;
}

async function change(
  tx: Runner,
  name: string,
  values: unknown[],
): Promise<{ schedules: number; decided: Decisions[] }> {
  const ids = (await tx.run<{ id: string }>(lockUsers, [name])).map(({ id }) => id);
  const decided = await fireBeforeChange(tx, ids);
  await tx.run(update, values);
  for (let start = 0; start < ids.length; start += BATCH) {
    const batch = ids.slice(start, start + BATCH);
    const changed = await tx.run<ScheduleProgress & { paused: boolean }>(changeUsers, [batch]);
    await writeNextTimes(
      tx,
      changed.filter(({ paused }) => !paused),
    );
  }
  return { schedules: ids.length, decided };
}

/** Returns whether it existed. Throws calendar_in_use. */
export function deleteCalendar(db: Pick<TransactionRunner, 'transaction'>, name: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    if ((await tx.run(lock, [name])).length === 0) return false;
    const [schedule] = await tx.run<{ name: string }>(user, [name]);
    if (schedule) {
      throw new DroverError('calendar_in_use', `calendar ${name} is used by the schedule ${schedule.name}`);
    }
    await tx.run(remove, [name]);
    return true;
  });
}
