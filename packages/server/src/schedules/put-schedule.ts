/**
 * Creating, changing and deleting a schedule. A change is one transaction that holds the row of the schedule: it decides what
 * was due by the old definition, writes the new one and its next time. Firing skips the row meanwhile, and changes of the same
 * schedule come one after the other.
 */
import type { NewSchedule } from '@drover/protocol';
import type { Runner, TransactionRunner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { checkedPayload, checkTiming } from './check-schedule.js';
import { fireBeforeChange, reportAll } from './fire-before-change.js';
import type { Decisions } from './fire-due.js';
import { PROGRESS_COLUMNS, type ScheduleProgress, writeNextTimes } from './next-times.js';
import { lockCalendars } from './read-timetables.js';
import { IGNORE, type Report } from './report.js';
import { CHANGED_NOW, NOW, toJobRow } from './schedule-row.js';

/**
 * Creates the schedule or, if the name is taken, locks the row that has it and returns no row: PostgreSQL locks a
 * conflicting row before it checks the condition. A new row counts as ended until the same transaction gives it its
 * next time.
 */
const createOrLock = sql('schedule_create_or_lock')`
insert into drover.schedule as s (
  name, group_name, definition, job, calendars, pause_after_failures, handled_until, ended
)
values ($1, $2, $3, $4, $5, $6, ${NOW}, true)
on conflict (name) do update set revision = s.revision where false
returning ${PROGRESS_COLUMNS}`;

const find = sql('schedule_stored')`
select id::text as id, definition::text as definition, job::text as job from drover.schedule where name = $1`;

const update = sql('schedule_update')`
update drover.schedule
set group_name = $2, definition = $3, job = $4, calendars = $5, pause_after_failures = $6, version = version + 1,
  -- a paused one may have further times now, which are found when it is resumed
  ended = ended and paused_at is null, ${CHANGED_NOW}
where name = $1
returning ${PROGRESS_COLUMNS}, paused_at is not null as paused`;

const remove = sql('schedule_delete')`delete from drover.schedule where name = $1 returning id`;

type Stored = { id: string; definition: string; job: string };

/** Returns whether anything changed: the same schedule again is not a change. */
export async function putSchedule(
  db: Pick<TransactionRunner, 'transaction'>,
  name: string,
  schedule: NewSchedule,
  report: Report = IGNORE,
): Promise<boolean> {
  const { isChanged, decided } = await db.transaction((tx) => put(tx, name, schedule));
  reportAll(report, decided);
  return isChanged;
}

async function put(
  tx: Runner,
  name: string,
  { job, ...timing }: NewSchedule,
): Promise<{ isChanged: boolean; decided: Decisions[] }> {
  const calendars = timing.exclude?.calendars?.length ? timing.exclude.calendars : undefined;
  checkTiming(timing, await lockCalendars(tx, calendars));
  const definition = JSON.stringify(timing);
  const jobRow = toJobRow(job, checkedPayload(job));
  const pauseAfterFailures = timing.pauseAfterFailures ?? null;
  const values = [name, timing.group ?? null, definition, jobRow, calendars ?? null, pauseAfterFailures];

  const created = await tx.run<ScheduleProgress>(createOrLock, values);
  if (created.length > 0) {
    await writeNextTimes(tx, created);
    return { isChanged: true, decided: [] };
  }
  const [stored] = await tx.run<Stored>(find, [name]);
  if (!stored) throw new Error(`the locked schedule ${name} cannot be read`);
  if (stored.definition === definition && stored.job === jobRow) return { isChanged: false, decided: [] };
  const decided = await fireBeforeChange(tx, [stored.id]);
  const updated = await tx.run<ScheduleProgress & { paused: boolean }>(update, values);
  await writeNextTimes(
    tx,
    updated.filter(({ paused }) => !paused),
  );
  return { isChanged: true, decided };
}

/** Returns whether it existed. The rows of its ledger are pruned like all others. */
export async function deleteSchedule(db: Runner, name: string): Promise<boolean> {
  return (await db.run(remove, [name])).length > 0;
}
