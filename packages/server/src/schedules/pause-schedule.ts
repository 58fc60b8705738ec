/** Pausing and resuming a schedule: each is one transaction that holds its row, like a put. */
import type { Runner, TransactionRunner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { fireBeforeChange, reportAll } from './fire-before-change.js';
import type { Decisions } from './fire-due.js';
import { PROGRESS_COLUMNS, type ScheduleProgress, writeNextTimes } from './next-times.js';
import { IGNORE, type Report } from './report.js';
import { CHANGED_NOW, scheduleNotFound } from './schedule-row.js';

const lock = sql('schedule_lock')`
select id::text as id, paused_at is not null as paused from drover.schedule where name = $1 for update`;

const pause = sql('schedule_pause')`
update drover.schedule
set paused_at = coalesce(paused_at, now()), paused_by = $2, pause_note = $3, next_at = null, due_at = null, ${CHANGED_NOW}
where id = $1`;

/** The next time, which is written next, ends the pause. */
const resume = sql('schedule_resume')`
update drover.schedule
set resumed_at = now(), ${CHANGED_NOW}
where id = $1
returning ${PROGRESS_COLUMNS}`;

type Locked = { id: string; paused: boolean };

/** A schedule that is paused already keeps the time of its pause; the note and who paused it are replaced. */
export async function pauseSchedule(
  db: Pick<TransactionRunner, 'transaction'>,
  name: string,
  by: string,
  note: string | undefined,
  report: Report = IGNORE,
): Promise<void> {
  const decided = await db.transaction(async (tx): Promise<Decisions[]> => {
    const { id } = await lockSchedule(tx, name);
    const rounds = await fireBeforeChange(tx, [id]);
    await tx.run(pause, [id, by, note ?? null]);
    return rounds;
  });
  reportAll(report, decided);
}

/** Occurrences from the pause are left out: the next time is counted from now. */
export async function resumeSchedule(db: Pick<TransactionRunner, 'transaction'>, name: string): Promise<void> {
  await db.transaction(async (tx) => {
    const { id, paused } = await lockSchedule(tx, name);
    if (paused) await writeNextTimes(tx, await tx.run<ScheduleProgress>(resume, [id]));
  });
}

async function lockSchedule(tx: Runner, name: string): Promise<Locked> {
  const [locked] = await tx.run<Locked>(lock, [name]);
  if (!locked) throw scheduleNotFound(name);
  return locked;
}
