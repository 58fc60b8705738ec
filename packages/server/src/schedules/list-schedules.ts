/** Schedules for the API and the CLI. */
import type { Schedule, ScheduleState } from '@drover/protocol';
import { likePatterns, queueOfJobs, type Scope } from '../access/scope.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { nameFromCursor, toCursor } from './list-cursor.js';
import { SCHEDULE_COLUMNS, type ScheduleRow, scheduleNotFound, toSchedule } from './schedule-row.js';

const find = sql('find_schedule')`select ${SCHEDULE_COLUMNS} from drover.schedule where name = $1`;

const list = sql('list_schedules')`
select ${SCHEDULE_COLUMNS}
from drover.schedule s
where name > $1
  and ($2::text is null or group_name = $2)
  and ($3::text is null or $3 = case when ended then 'ended' when paused_at is not null then 'paused' else 'active' end)
  and ($5::text[] is null or ${queueOfJobs('s')} like any($5))
  and ($6::text[] is null or job->>'type' like any($6))
order by name
limit $4`;

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

/** By name. The cursor is the last name, so it stays valid when schedules are created and deleted. */
export async function listSchedules(
  db: Runner,
  { group, state, limit, cursor }: ListSchedules,
  scope?: Scope,
): Promise<{ items: Schedule[]; nextCursor: string | null }> {
  const patterns = [likePatterns(scope?.queues ?? null), likePatterns(scope?.types ?? null)];
  const after = cursor === undefined ? '' : nameFromCursor(cursor);
  const rows = await db.run<ScheduleRow>(list, [after, group ?? null, state ?? null, limit + 1, ...patterns]);
  const items = rows.slice(0, limit).map(toSchedule);
  return { items, nextCursor: rows.length > limit ? toCursor((items.at(-1) as Schedule).name) : null };
}
