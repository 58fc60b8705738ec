/** Reads what is due, without a lock: each reading is checked against the row's revision when its plan is written. */
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { milliseconds } from './schedule-row.js';
import type { Definition } from './timing/timetable.js';

/** Which of the schedules are this server's own: those whose id leaves `index` when divided by `of`. */
export type Share = { index: number; of: number };

/** A schedule of another server's share is taken over when it is this late. */
export const OVERDUE_MS = 1000;

/** Whether the job of the latest firing is unfinished. An unknown job counts as finished here: it may stay unknown for days. */
const PREVIOUS_LIVES = `exists (
    -- "offset": PostgreSQL must not read all jobs to look for this one among them (see db/by-key)
    select from drover.job j where j.id = s.last_job_id and j.state <> 'unknown' offset 0
  )`;

/** How many of the latest jobs failed, counting as many as must fail in a row. Unfinished and pruned jobs have not failed. */
const FAILURES = `case when s.pause_after_failures is null then 0 else (
    select count(*)::int
    from (
      select o.job_id, o.decided_at
      from drover.occurrence o
      where o.schedule_id = s.id and o.state = 'fired' and o.kind = 'scheduled' and o.decided_at > s.resumed_at
      order by o.nominal_at desc
      limit s.pause_after_failures
    ) latest
    join drover.job_history h on ${byKey('h.id', 'latest.job_id')} and h.finished_at >= latest.decided_at
    -- as text, or PostgreSQL may think of reading all that failed
    where h.state::text = 'failed'
  ) end`;

export const DUE_COLUMNS = `s.id::text as id, s.name, s.revision::text as revision, s.definition,
  ${milliseconds('s.handled_until')} as "handledUntilMs", s.fired::int as fired, ${milliseconds('s.waiting_at')} as "waitingMs",
  s.last_job_id::text as "lastJobId", ${PREVIOUS_LIVES} as "previousLives", ${FAILURES} as "failuresInARow",
  ${milliseconds('now()')} as "nowMs"`;

/** A schedule as it was read. */
export type DueSchedule = {
  id: string;
  name: string;
  revision: string;
  definition: Definition;
  handledUntilMs: number;
  fired: number;
  waitingMs: number | null;
  lastJobId: string | null;
  previousLives: boolean;
  failuresInARow: number;
  nowMs: number;
};

const due = sql('schedules_due')`
select ${DUE_COLUMNS}
from drover.schedule s
where s.due_at <= now() and s.id % $2::int = $3::int
order by s.due_at
limit $1`;

const overdue = sql('schedules_overdue')`
select ${DUE_COLUMNS}
from drover.schedule s
where s.due_at <= now() - interval '${OVERDUE_MS} milliseconds'
order by s.due_at
limit $1`;

const released = sql('schedules_released')`
select ${DUE_COLUMNS}
from drover.schedule s
where s.waiting_at is not null and s.paused_at is null and not ${PREVIOUS_LIVES}
order by s.id
limit $1`;

export function readDue(db: Runner, limit: number, { index, of }: Share): Promise<DueSchedule[]> {
  return db.run<DueSchedule>(due, [limit, of, index]);
}

/** Late schedules of any share: the server that they belong to may be gone. */
export function readOverdue(db: Runner, limit: number): Promise<DueSchedule[]> {
  return db.run<DueSchedule>(overdue, [limit]);
}

/** Schedules with an occurrence that waits for a job which has finished meanwhile. */
export function readReleased(db: Runner, limit: number): Promise<DueSchedule[]> {
  return db.run<DueSchedule>(released, [limit]);
}

/** Running jobs that must stop for a waiting occurrence of their schedule, and that have not been asked to. */
const uncancelled = sql('schedules_uncancelled')`
select s.last_job_id::text as id
from drover.schedule s
join drover.job j on ${byKey('j.id', 's.last_job_id')}
where s.waiting_at is not null and s.definition->>'overlap' = 'cancel-previous' and j.cancel_requested_at is null
limit $1`;

export async function jobsToCancel(db: Runner, limit: number): Promise<string[]> {
  return (await db.run<{ id: string }>(uncancelled, [limit])).map(({ id }) => id);
}
