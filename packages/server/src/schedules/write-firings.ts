/**
 * Writes what became of due schedules, in one statement: the ledger, the jobs and the next times. That statement is what an
 * instant with 10,000 occurrences costs, so plans travel as one array per column and not as JSON.
 */
import { newId } from '@drover/protocol';
import { plainArray, textArray } from '../db/array-text.js';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { DueSchedule } from './fire-due.js';
import type { Plan } from './plan-firing.js';
import { foundByRules } from './schedule-row.js';
import { type Timetable, toNextTime } from './timing/timetable.js';
import { ZONE_RULES } from './timing/zone.js';

/** Of an occurrence that waits, and of one that was skipped and is backfilled; one that has fired stays as it is. */
export const DECIDED_ANEW = `on conflict (schedule_id, nominal_at) do update
  set kind = excluded.kind, state = excluded.state, reason = excluded.reason, job_id = excluded.job_id, decided_at = now()`;

/**
 * The jobs of the CTE `decided`, made from their schedules: the CTE `made`, which the statement must read, or PostgreSQL does not
 * run it. `historyFrom`: no job with one of these ids can have finished before.
 */
export const madeJobs = (historyFrom: string) => `made as (
  select drover.insert_jobs(
    array_agg(d.job_id), array_agg(t.job->>'type'), array_agg(t.job->>'queue'), array_agg(t.job->>'payload'), null,
    array_agg((
      coalesce((t.job->'options')::jsonb, '{}')
      || jsonb_build_object('occurrence', json_build_object('schedule', t.name, 'nominalAt', drover.iso(d.nominal_at)))
    )::json),
    ${historyFrom}
  )
  from decided d
  -- by its key and not from a CTE: those have no index, and 500 times 500 rows are 250,000 comparisons
  join drover.schedule t on ${byKey('t.id', 'd.schedule_id')}
  where d.state = 'fired'
  having count(*) > 0
)`;

/** What tells the row of a run from that of its first occurrence. */
export const RUN_MARK = `interval '1 microsecond'`;

const fire = sql('schedules_fire')`
with given as materialized (
  select *
  from unnest(
    $2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::int[], $8::boolean[],
    $9::timestamptz[], $10::text[], $11::uuid[], $12::int[], $13::int[]
  ) as g(
    id, revision, handled_until, next_at, due_at, next_offset_ms, ended, waiting_at, pause_note, last_job_id, fired, skipped
  )
), locked as materialized (
  -- whoever is being fired by somebody else is theirs
  select g.*, s.ctid as row_address
  from given g
  join drover.schedule s on ${byKey('s.id', 'g.id')} and s.revision = g.revision
  -- of the batch: an order by the row's own id would be a reason to walk through the index of all ids
  order by g.id
  for update of s skip locked
), taken as (
  update drover.schedule s
  set revision = s.revision + 1, handled_until = g.handled_until, waiting_at = g.waiting_at,
    next_at = case when g.pause_note is null then g.next_at end,
    due_at = case when g.pause_note is null then g.due_at end,
    ended = g.ended and g.pause_note is null, ${foundByRules('$1')},
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
  from unnest(
    $14::bigint[], $15::timestamptz[], $16::timestamptz[], $17::text[], $18::text[], $19::uuid[], $20::timestamptz[],
    $21::int[]
  ) as x(schedule_id, nominal_at, due_at, state, reason, job_id, last_at, count)
  -- "is true" keeps it from becoming a join, which would compare each with each: this way what was taken is hashed
  where (x.schedule_id in (select id from taken)) is true
  ${DECIDED_ANEW}
  where o.state = 'waiting'
  returning schedule_id, nominal_at, state, job_id
), ${madeJobs('now()')}
select
  -- null: all of them, as usual
  (select case when count(*) < cardinality($2::bigint[]) then coalesce(array_agg(id::text), '{}') end from taken) as taken,
  (select count(*) from made)::int as made`;

/** For each schedule whose row is still the one that was read. Gives the ids of those, or null if that is all of them. */
export async function writeFirings(db: Runner, plans: readonly Written[]): Promise<string[] | null> {
  const [answer] = await db.run<{ taken: string[] | null }>(fire, [ZONE_RULES, ...toColumns(plans)]);
  return answer?.taken ?? null;
}

/** A plan as the statement takes it. */
export type Written = ReturnType<typeof toWritten>;

export function toWritten(row: DueSchedule, plan: Plan, compiled: Timetable) {
  const occurrences = plan.occurrences.map(({ nominalMs, dueMs, state, reason, run }) => ({
    schedule_id: row.id,
    nominal_at: iso(nominalMs),
    due_at: iso(dueMs),
    state,
    reason,
    job_id: state === 'fired' ? newId() : undefined,
    last_at: run && iso(run.lastMs),
    count: run?.count ?? 1,
  }));
  const jobs = occurrences.flatMap(({ job_id }) => job_id ?? []);
  const isFull =
    row.definition.maxOccurrences !== undefined && row.fired + jobs.length >= row.definition.maxOccurrences;
  const next = isFull ? undefined : plan.next;
  return {
    id: row.id,
    revision: row.revision,
    handled_until: iso(plan.handledUntilMs),
    ...(next && toNextTime(compiled, next.nominalMs, next.dueMs)),
    // one that waits is still to come
    ended: next === undefined,
    waiting_at: plan.waitingMs === undefined ? undefined : iso(plan.waitingMs),
    pause_note: plan.pauseNote,
    last_job_id: jobs.at(-1),
    fired: jobs.length,
    skipped: occurrences.reduce((sum, { state, count }) => (state === 'skipped' ? sum + count : sum), 0),
    occurrences,
  };
}

/** Plans as the parameters of the statement, one array a column: the schedules', then their occurrences'. */
function toColumns(plans: readonly Written[]): string[] {
  const occurrences = plans.flatMap((plan) => plan.occurrences);
  return [
    plainArray(plans.map(({ id }) => id)),
    plainArray(plans.map(({ revision }) => revision)),
    plainArray(plans.map(({ handled_until }) => handled_until)),
    plainArray(plans.map(({ next_at }) => next_at)),
    plainArray(plans.map(({ due_at }) => due_at)),
    plainArray(plans.map(({ next_offset_ms }) => next_offset_ms)),
    plainArray(plans.map(({ ended }) => String(ended))),
    plainArray(plans.map(({ waiting_at }) => waiting_at)),
    textArray(plans.map(({ pause_note }) => pause_note)),
    plainArray(plans.map(({ last_job_id }) => last_job_id)),
    plainArray(plans.map(({ fired }) => fired)),
    plainArray(plans.map(({ skipped }) => skipped)),
    plainArray(occurrences.map(({ schedule_id }) => schedule_id)),
    plainArray(occurrences.map(({ nominal_at }) => nominal_at)),
    plainArray(occurrences.map(({ due_at }) => due_at)),
    plainArray(occurrences.map(({ state }) => state)),
    plainArray(occurrences.map(({ reason }) => reason)),
    plainArray(occurrences.map(({ job_id }) => job_id)),
    plainArray(occurrences.map(({ last_at }) => last_at)),
    plainArray(occurrences.map(({ count }) => count)),
  ];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
