/** Schedules and calendars as the audit trail shows them: without payloads. */
import { digestOf } from '../access/audit.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const schedule = sql('schedule_snapshot')`
select version, definition, job, paused_by as "pausedBy", drover.iso(paused_at) as "pausedAt", pause_note as note
from drover.schedule
where name = $1`;

const calendar = sql('calendar_snapshot')`
select description, dates::text[] as dates from drover.calendar where name = $1`;

type Snapshot = { job: { payload: string } & Record<string, unknown> } & Record<string, unknown>;

/** Null if there is none. */
export async function scheduleSnapshot(tx: Runner, name: string): Promise<unknown> {
  const [found] = await tx.run<Snapshot>(schedule, [name]);
  return found ? { ...found, job: { ...found.job, payload: digestOf(found.job.payload) } } : null;
}

export async function calendarSnapshot(tx: Runner, name: string): Promise<unknown> {
  return (await tx.run(calendar, [name]))[0] ?? null;
}
