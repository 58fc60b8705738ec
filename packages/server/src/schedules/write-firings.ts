/**
 * Writes the decisions on due schedules in one statement: the ledger, the jobs and the next times. 10,000 occurrences
 * of the same second cost little more than this statement, so plans travel as one array per column instead of as
 * JSON.
 */
import { newId } from '@drover/protocol';
import { createArrayTable } from '../db/array-table.js';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { DueSchedule } from './due-schedules.js';
import { madeJobs, OVERWRITE_DECISION, RUN_MARK } from './ledger.js';
import type { Plan } from './plan-firing.js';
import { foundByRules } from './schedule-row.js';
import { type Timetable, toNextTime } from './timing/timetable.js';
import { ZONE_RULES } from './timing/zone.js';

/** The changes of the schedules. The first parameter of the statement is the release of the time zone rules. */
const scheduleTable = createArrayTable('g', 2, {
  id: 'bigint',
  revision: 'bigint',
  handled_until: 'timestamptz',
  next_at: 'timestamptz',
  due_at: 'timestamptz',
  next_offset_ms: 'int',
  ended: 'boolean',
  waiting_at: 'timestamptz',
  pause_note: 'text',
  last_job_id: 'uuid',
  fired: 'int',
  skipped: 'int',
});

/** The decisions on their occurrences. */
const occurrenceTable = createArrayTable('x', scheduleTable.nextParameter, {
  schedule_id: 'bigint',
  nominal_at: 'timestamptz',
  due_at: 'timestamptz',
  state: 'text',
  reason: 'text',
  job_id: 'uuid',
  last_at: 'timestamptz',
  count: 'int',
});

const fire = sql('schedules_fire')`
with given as materialized (
  select * from ${scheduleTable.sql}
), locked as materialized (
  -- a row that another transaction has locked is being fired or changed there
  select g.*, s.ctid as row_address
  from given g
  join drover.schedule s on ${byKey('s.id', 'g.id')} and s.revision = g.revision
  -- by the key of the batch: ordering by the row's own id would be a reason to walk through the index of all ids
  order by g.id
  for update of s skip locked
), taken as (
  update drover.schedule s
  set revision = s.revision + 1, handled_until = g.handled_until, waiting_at = g.waiting_at,
    next_at = g.next_at, due_at = g.due_at, ended = g.ended, ${foundByRules('$1')},
    fired = s.fired + g.fired, skipped = s.skipped + g.skipped,
    last_job_id = coalesce(g.last_job_id, s.last_job_id),
    last_fired_at = case when g.fired > 0 then now() else s.last_fired_at end,
    paused_at = case when g.pause_note is not null then now() else s.paused_at end,
    paused_by = case when g.pause_note is not null then 'drover' else s.paused_by end,
    pause_note = coalesce(g.pause_note, s.pause_note)
  from locked g
  -- the lock pins the address
  where s.ctid = g.row_address and s.revision = g.revision
  returning s.id
), decided as (
  insert into drover.occurrence as o (schedule_id, nominal_at, due_at, kind, state, reason, job_id, last_at, occurrences)
  select x.schedule_id, x.nominal_at + case when x.last_at is null then interval '0' else ${RUN_MARK} end, x.due_at,
    'scheduled', x.state, x.reason, x.job_id, x.last_at, x.count
  from ${occurrenceTable.sql}
  -- "is true" keeps it from becoming a join, which would compare each with each: this way what was taken is hashed
  where (x.schedule_id in (select id from taken)) is true
  ${OVERWRITE_DECISION}
  where o.state = 'waiting'
  returning schedule_id, nominal_at, state, job_id
), ${madeJobs('now()')}
select
  -- null: all of them, as usual
  (select case when count(*) < (select count(*) from given) then coalesce(array_agg(id::text), '{}') end from taken) as taken,
  (select count(*) from made)::int as made`;

/**
 * Writes the plans whose schedule's row still has the revision that was read and is not locked by another
 * transaction. Returns the ids of these schedules, or null if it wrote all plans.
 */
export async function writeFirings(db: Runner, plans: readonly Written[]): Promise<ReadonlySet<string> | null> {
  const [answer] = await db.run<{ taken: string[] | null }>(fire, [
    ZONE_RULES,
    ...scheduleTable.toValues(plans.map(({ schedule }) => schedule)),
    ...occurrenceTable.toValues(plans.flatMap(({ occurrences }) => occurrences)),
  ]);
  return answer?.taken ? new Set(answer.taken) : null;
}

/** A plan as the rows that the statement takes. */
export type Written = ReturnType<typeof toWritten>;

export function toWritten(row: DueSchedule, plan: Plan, timetable: Timetable) {
  const occurrences = plan.occurrences.map(({ nominalMs, dueMs, state, reason, run }) => ({
    schedule_id: row.id,
    nominal_at: toIso(nominalMs),
    due_at: toIso(dueMs),
    state,
    reason,
    job_id: state === 'fired' ? newId() : undefined,
    last_at: run && toIso(run.lastMs),
    count: run?.count ?? 1,
  }));
  const jobs = occurrences.flatMap(({ job_id }) => job_id ?? []);
  const { maxOccurrences } = row.definition;
  const isFull = maxOccurrences !== undefined && row.fired + jobs.length >= maxOccurrences;
  const next = isFull ? undefined : plan.next;
  const nextTime = next && toNextTime(timetable, next.nominalMs, next.dueMs);
  const isPaused = plan.pauseNote !== undefined;
  const schedule = {
    id: row.id,
    revision: row.revision,
    handled_until: toIso(plan.handledUntilMs),
    next_at: isPaused ? undefined : nextTime?.next_at,
    due_at: isPaused ? undefined : nextTime?.due_at,
    next_offset_ms: nextTime?.next_offset_ms,
    // also if an occurrence still waits
    ended: next === undefined && !isPaused,
    waiting_at: plan.waitingMs === undefined ? undefined : toIso(plan.waitingMs),
    pause_note: plan.pauseNote,
    last_job_id: jobs.at(-1),
    fired: jobs.length,
    skipped: occurrences.reduce((sum, { state, count }) => (state === 'skipped' ? sum + count : sum), 0),
  };
  return { schedule, occurrences };
}

function toIso(ms: number): string {
  return new Date(ms).toISOString();
}
