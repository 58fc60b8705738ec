/** The ledger of one schedule for the API and the CLI. */
import type { Occurrence } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { RUN_MARK } from './ledger.js';
import { timeFromCursor, toCursor } from './list-cursor.js';
import { findSchedule } from './list-schedules.js';

/** The position of a row in the list; that of a run is a microsecond after that of its first occurrence. */
const POSITION = `to_char(o.nominal_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const SCHEDULE_ID = '(select id from drover.schedule where name = $1)';

/** Newest first. The job is either unfinished or in the history. */
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
  -- from $3 on, or from the run that $3 lies in
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
