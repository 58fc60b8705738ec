/**
 * Making, changing, pausing, resuming and deleting a schedule. Before a change everything that was due by the old
 * definition is decided, and the new one counts from the database's present on; so no occurrence is lost or comes
 * twice, and one server's change meets another's firing only through the revision of the row.
 */
import { DroverError, type NewSchedule } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { calendarDates } from './calendars.js';
import { checkedPayload, checkTiming } from './check-schedule.js';
import { settleSchedule } from './fire-due.js';
import { armSchedule } from './next-times.js';
import type { Report } from './report.js';
import { NOW, toJobRow } from './schedule-row.js';

/** Is told what was decided before a change. */
const NOBODY: Report = () => {};
/** A busy schedule changes under our hands every second, not more often; this many losses in a row mean a fault. */
const TRIES = 50;

const insert = sql('schedule_insert')`
insert into drover.schedule (name, group_name, definition, job, calendars, pause_after_failures, handled_until)
values ($1, $2, $3, $4, $5, $6, ${NOW})
on conflict (name) do nothing
returning id`;

const find = sql('schedule_stored')`
select id::text as id, revision::text as revision, definition::text as definition, job::text as job, paused_at is not null as paused
from drover.schedule
where name = $1`;

/** Everything up to now must be decided: what is not is settled first. One that goes on has a next time by then. */
const SETTLED = '(next_at > now() or paused_at is not null or ended)';
const FROM_NOW_ON = `next_at = null, due_at = null, handled_until = greatest(handled_until, ${NOW}), revision = revision + 1, updated_at = now()`;

const update = sql('schedule_update')`
update drover.schedule
set group_name = $3, definition = $4, job = $5, calendars = $6, pause_after_failures = $7,
  version = version + 1, ended = false, ${FROM_NOW_ON}
where id = $1 and revision = $2 and ${SETTLED}
returning id`;

const pause = sql('schedule_pause')`
update drover.schedule
set paused_at = coalesce(paused_at, now()), paused_by = $3, pause_note = $4, ${FROM_NOW_ON}
where id = $1 and revision = $2 and ${SETTLED}
returning id`;

const resume = sql('schedule_resume')`
update drover.schedule
set paused_at = null, paused_by = null, pause_note = null, resumed_at = now(), ${FROM_NOW_ON}
where id = $1 and revision = $2
returning id`;

const remove = sql('schedule_delete')`delete from drover.schedule where name = $1 returning id`;

type Stored = { id: string; revision: string; definition: string; job: string; paused: boolean };

/** Gives whether anything changed: the same schedule again is no change. */
export async function putSchedule(
  db: Runner,
  name: string,
  schedule: NewSchedule,
  onSettled = NOBODY,
): Promise<boolean> {
  const { job, ...timing } = schedule;
  const calendars = timing.exclude?.calendars?.length ? timing.exclude.calendars : undefined;
  checkTiming(timing, await calendarDates(db, calendars));
  const definition = JSON.stringify(timing);
  const jobRow = toJobRow(job, checkedPayload(job));
  const values = [timing.group ?? null, definition, jobRow, calendars ?? null, timing.pauseAfterFailures ?? null];
  for (let tried = 0; tried < TRIES; tried++) {
    const [stored] = await db.run<Stored>(find, [name]);
    if (stored?.definition === definition && stored.job === jobRow) return false;
    const changed = stored
      ? await changeSettled(db, name, stored, onSettled, () => db.run(update, [stored.id, stored.revision, ...values]))
      : await db.run(insert, [name, ...values]);
    if (changed.length === 0) continue;
    await armSchedule(db, name);
    return true;
  }
  throw tooBusy(name);
}

export async function pauseSchedule(
  db: Runner,
  name: string,
  by: string,
  note: string | undefined,
  onSettled = NOBODY,
): Promise<void> {
  await change(db, name, onSettled, ({ id, revision }) => db.run(pause, [id, revision, by, note ?? null]));
}

export async function resumeSchedule(db: Runner, name: string, onSettled = NOBODY): Promise<void> {
  await change(db, name, onSettled, async (stored) => {
    if (!stored.paused) return [stored];
    return db.run(resume, [stored.id, stored.revision]);
  });
  await armSchedule(db, name);
}

/** Gives whether there was one. Its ledger goes with its retention. */
export async function deleteSchedule(db: Runner, name: string): Promise<boolean> {
  return (await db.run(remove, [name])).length > 0;
}

async function change(
  db: Runner,
  name: string,
  onSettled: Report,
  write: (stored: Stored) => Promise<object[]>,
): Promise<void> {
  for (let tried = 0; tried < TRIES; tried++) {
    const [stored] = await db.run<Stored>(find, [name]);
    if (!stored) throw scheduleNotFound(name);
    if ((await changeSettled(db, name, stored, onSettled, () => write(stored))).length > 0) return;
  }
  throw tooBusy(name);
}

/** Tries the change; if it was not possible, decides what was due, after which it may be. */
async function changeSettled(
  db: Runner,
  name: string,
  { id }: Stored,
  onSettled: Report,
  write: () => Promise<object[]>,
): Promise<object[]> {
  const changed = await write();
  if (changed.length > 0) return changed;
  await armSchedule(db, name);
  onSettled(await settleSchedule(db, id));
  return [];
}

export function scheduleNotFound(name: string): DroverError {
  return new DroverError('schedule_not_found', `there is no schedule ${name}`, { name });
}

function tooBusy(name: string): DroverError {
  return new DroverError('overloaded', `the schedule ${name} changes all the time; nothing was done`);
}
