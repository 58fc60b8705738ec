/** Schedules and their ledgers, for the API. */
import { DroverError, type Occurrence, type Schedule, type ScheduleState } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { scheduleNotFound } from './put-schedule.js';
import { SCHEDULE_COLUMNS, type ScheduleRow, toSchedule } from './schedule-row.js';
import { RUN_MARK } from './write-firings.js';

const find = sql('find_schedule')`select ${SCHEDULE_COLUMNS} from drover.schedule where name = $1`;

const list = sql('list_schedules')`
select ${SCHEDULE_COLUMNS}
from drover.schedule
where name > $1
  and ($2::text is null or group_name = $2)
  and ($3::text is null or $3 = case when ended then 'ended' when paused_at is not null then 'paused' else 'active' end)
order by name
limit $4`;

/** Where a row stands in the list: runs differ from their first occurrence by a microsecond. */
const POSITION = `to_char(o.nominal_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const SCHEDULE_ID = '(select id from drover.schedule where name = $1)';

/** Newest first. The job is looked up where it is: unfinished, or in the history since its firing. */
const occurrences = sql('list_occurrences')`
select ${POSITION} as position, drover.iso(o.nominal_at) as "nominalAt", o.occurrences as count,
  drover.iso(o.last_at) as "lastAt", drover.iso(o.due_at) as "dueAt", o.kind, o.state, o.reason,
  drover.iso(o.decided_at) as "decidedAt", o.job_id::text as "jobId",
  case when o.state = 'fired' then floor(extract(epoch from o.decided_at - o.due_at) * 1000)::double precision end as "latenessMs",
  coalesce(j.state, h.state)::text as "jobState"
from drover.occurrence o
left join drover.job j on j.id = o.job_id
left join lateral (
  select h.state from drover.job_history h where h.id = o.job_id and h.finished_at >= o.decided_at limit 1
) h on j.id is null
where o.schedule_id = ${SCHEDULE_ID}
  and o.nominal_at < $2 and o.nominal_at <= $4::timestamptz + ${RUN_MARK}
  -- from there on, or from a run on that goes on there
  and o.nominal_at >= coalesce((
    select case when r.last_at >= $3 then r.nominal_at end
    from drover.occurrence r
    where r.schedule_id = ${SCHEDULE_ID} and r.last_at is not null and r.nominal_at < $3
    order by r.nominal_at desc
    limit 1
  ), $3)
  and coalesce(o.last_at, o.nominal_at) >= $3
  and ($5::text is null or o.state = $5)
order by o.nominal_at desc
limit $6`;

export async function findSchedule(db: Runner, name: string): Promise<Schedule> {
  const [row] = await db.run<ScheduleRow>(find, [name]);
  if (!row) throw scheduleNotFound(name);
  return toSchedule(row);
}

export type ListSchedules = {
  group?: string | undefined;
  state?: ScheduleState | undefined;
  limit: number;
  cursor?: string | undefined;
};

/** By name. The cursor is the last name, so that it stays good whatever comes and goes. */
export async function listSchedules(
  db: Runner,
  { group, state, limit, cursor }: ListSchedules,
): Promise<{ items: Schedule[]; nextCursor: string | null }> {
  const after = cursor === undefined ? '' : fromCursor(cursor);
  const rows = await db.run<ScheduleRow>(list, [after, group ?? null, state ?? null, limit + 1]);
  const items = rows.slice(0, limit).map(toSchedule);
  return { items, nextCursor: rows.length > limit ? toCursor((items.at(-1) as Schedule).name) : null };
}

export type ListOccurrences = {
  state?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
  limit: number;
  cursor?: string | undefined;
};

export async function listOccurrences(
  db: Runner,
  name: string,
  { state, from, to, limit, cursor }: ListOccurrences,
): Promise<{ items: Occurrence[]; nextCursor: string | null }> {
  await findSchedule(db, name);
  const before = cursor === undefined ? 'infinity' : timeFromCursor(cursor);
  const range = [from ?? '-infinity', to ?? 'infinity'];
  const rows = await db.run<Occurrence & { position: string }>(occurrences, [
    name,
    before,
    ...range,
    state ?? null,
    limit + 1,
  ]);
  const nextCursor = rows.length > limit ? toCursor((rows[limit - 1] as { position: string }).position) : null;
  return { items: rows.slice(0, limit).map(({ position: _, ...occurrence }) => occurrence), nextCursor };
}

function toCursor(text: string): string {
  return Buffer.from(text).toString('base64url');
}

function fromCursor(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  if (text !== '' && !/[\0\ufffd]/.test(text)) return text;
  throw invalidCursor(cursor);
}

function timeFromCursor(cursor: string): string {
  const time = fromCursor(cursor);
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(time) && !Number.isNaN(Date.parse(time))) return time;
  throw invalidCursor(cursor);
}

function invalidCursor(cursor: string): DroverError {
  const message = 'expected the nextCursor of the same list';
  return new DroverError('invalid_cursor', `cursor: ${message}, got ${JSON.stringify(cursor)}`, {
    issues: [{ field: 'cursor', message, value: cursor }],
  });
}
