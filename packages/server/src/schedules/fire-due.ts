/**
 * Fires what is due. Any number of servers do it at once, and none is special:
 *
 * 1. read the due schedules, without a lock;
 * 2. plan, from that and the database's clock, what becomes of their occurrences (plan-firing, pure);
 * 3. write it in one statement: the ledger, the jobs and the next time, for each schedule whose row is still the one
 *    that was read (its revision) and that nobody else has locked.
 *
 * So an occurrence is decided once, whoever reads it; a server that dies before 3 has done nothing and one that dies
 * after it has done everything; a change of the schedule in between makes the plan void, and it is made anew.
 * A transaction that holds locks over 1 to 3 would save other servers their plans, but one that is paused in the middle would
 * then keep everybody else away. Instead each server looks first at its own share of the schedules, by their ids, and
 * takes over those of others when it has none left and they are OVERDUE_MS late.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { newId, type SkipReason } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { failpoint } from '../failpoint.js';
import { calendarDates } from './calendars.js';
import { type CompiledSchedule, compiledOnce, compileSchedule, type Definition, toNextTime } from './compiled.js';
import { type Plan, planFiring } from './plan-firing.js';
import { foundByRules, milliseconds } from './schedule-row.js';
import { ZONE_RULES } from './zone.js';

/** Which of the schedules are this server's own: those whose id leaves `index` when divided by `of`. */
export type Share = { index: number; of: number };

/** A schedule of another server's share is taken over when it is this late. */
export const OVERDUE_MS = 1000;

/** After so long of planning others get a turn of the event loop: one schedule may have 20,000 occurrences to look at. */
const MAX_WORK_MS = 20;

/** A job that the person's "unknown" ended for the schedule: its lease is over, and nobody knows when it will be settled. */
const LIVES = `exists (select from drover.job j where j.id = s.last_job_id and j.state <> 'unknown')`;

/** How many of the latest jobs failed, of as many as must fail in a row; those unfinished or pruned have not. */
const FAILURES = `case when s.pause_after_failures is null then 0 else (
    select count(*)::int
    from (
      select o.job_id, o.decided_at
      from drover.occurrence o
      where o.schedule_id = s.id and o.state = 'fired' and o.kind = 'scheduled' and o.decided_at > s.resumed_at
      order by o.nominal_at desc
      limit s.pause_after_failures
    ) latest
    join drover.job_history h on h.id = latest.job_id and h.finished_at >= latest.decided_at
    where h.state = 'failed'
  ) end`;

const COLUMNS = `s.id::text as id, s.name, s.version, s.revision::text as revision, s.definition,
  ${milliseconds('s.handled_until')} as "handledUntilMs", s.fired::int as fired, ${milliseconds('s.waiting_at')} as "waitingMs",
  ${milliseconds('s.next_at')} as "nextMs", ${milliseconds('s.due_at')} as "dueMs",
  s.last_job_id::text as "lastJobId", ${LIVES} as lives, ${FAILURES} as failures, ${milliseconds('now()')} as "nowMs"`;

/** A schedule as it was read. */
export type DueSchedule = {
  id: string;
  name: string;
  version: number;
  revision: string;
  definition: Definition;
  handledUntilMs: number;
  fired: number;
  waitingMs: number | null;
  nextMs: number | null;
  dueMs: number | null;
  lastJobId: string | null;
  lives: boolean;
  failures: number;
  nowMs: number;
};

const due = sql('schedules_due')`
select ${COLUMNS}
from drover.schedule s
where s.due_at <= now() and s.id % $2::int = $3::int
order by s.due_at
limit $1`;

const overdue = sql('schedules_overdue')`
select ${COLUMNS}
from drover.schedule s
where s.due_at <= now() - interval '${OVERDUE_MS} milliseconds'
order by s.due_at
limit $1`;

const unsettled = sql('schedule_unsettled')`
select ${COLUMNS} from drover.schedule s where s.id = $1 and s.next_at <= now()`;

const waiting = sql('schedules_waiting')`
select ${COLUMNS}
from drover.schedule s
where s.waiting_at is not null and s.paused_at is null and not ${LIVES}
order by s.id
limit $1`;

/** Of an occurrence that waits, and of one that was skipped and is backfilled; one that has fired stays as it is. */
export const DECIDED_ANEW = `on conflict (schedule_id, nominal_at) do update
  set kind = excluded.kind, state = excluded.state, reason = excluded.reason, job_id = excluded.job_id, decided_at = now()`;

/** The jobs of the CTE `decided`, made from their schedules. */
export const INSERT_JOBS = `
  select drover.insert_jobs(
    json_agg(t.job::jsonb || jsonb_build_object(
      'id', d.job_id,
      'expires_at', now() + (t.job->>'expires_in_ms')::double precision * interval '1 millisecond',
      'occurrence', json_build_object('schedule', t.name, 'nominalAt', drover.iso(d.nominal_at))
    )),
    count(*)::int, now() - interval '1 day'
  )
  from decided d
  -- by its key and not from a CTE: those have no index, and 500 times 500 rows are 250,000 comparisons
  join drover.schedule t on t.id = d.schedule_id
  where d.state = 'fired'
  having count(*) > 0`;

/** What tells the row of a run from that of its first occurrence. */
export const RUN_MARK = `interval '1 microsecond'`;

const fire = sql('schedules_fire')`
with given as materialized (
  select *
  from json_to_recordset($1) as g(
    id bigint, revision bigint, handled_until timestamptz, next_at timestamptz, due_at timestamptz,
    next_offset_ms int, ended boolean, waiting_at timestamptz, pause_note text, last_job_id uuid, fired int, skipped int, occurrences json
  )
), locked as materialized (
  -- whoever is being fired by somebody else is theirs
  select g.*, s.ctid as row_address
  from given g
  join drover.schedule s on s.id = g.id and s.revision = g.revision
  order by s.id
  for update of s skip locked
), taken as (
  update drover.schedule s
  set revision = s.revision + 1, handled_until = g.handled_until, waiting_at = g.waiting_at,
    next_at = case when g.pause_note is null then g.next_at end,
    due_at = case when g.pause_note is null then g.due_at end,
    ended = g.ended and g.pause_note is null, ${foundByRules('$2')},
    fired = s.fired + g.fired, skipped = s.skipped + g.skipped,
    last_job_id = coalesce(g.last_job_id, s.last_job_id),
    last_fired_at = case when g.fired > 0 then now() else s.last_fired_at end,
    paused_at = case when g.pause_note is not null then now() else s.paused_at end,
    paused_by = case when g.pause_note is not null then 'drover' else s.paused_by end,
    pause_note = coalesce(g.pause_note, s.pause_note)
  from locked g
  -- the lock pins the address
  where s.ctid = g.row_address and s.revision = g.revision
  returning s.id, g.occurrences
), decided as (
  insert into drover.occurrence as o (schedule_id, nominal_at, due_at, kind, state, reason, job_id, last_at, occurrences)
  select t.id, x.nominal_at + case when x.last_at is null then interval '0' else ${RUN_MARK} end, x.due_at,
    'scheduled', x.state, x.reason, x.job_id, x.last_at, x.count
  from taken t
  cross join lateral json_to_recordset(t.occurrences) as x(
    nominal_at timestamptz, due_at timestamptz, state text, reason text, job_id uuid, last_at timestamptz, count int
  )
  ${DECIDED_ANEW}
  where o.state = 'waiting'
  returning schedule_id, nominal_at, state, job_id
), made as (${INSERT_JOBS}
)
select (select coalesce(array_agg(id::text), '{}') from taken) as taken, (select count(*)::int from made) as made`;

const quarantine = sql('schedule_quarantine')`
update drover.schedule
set next_at = null, due_at = null, paused_at = now(), paused_by = 'drover', pause_note = $3, revision = revision + 1
where id = $1 and revision = $2`;

/** One that was fired. */
export type Firing = {
  schedule: string;
  nominalMs: number;
  /** Undefined: it had to wait for the job before it. */
  latenessMs: number | undefined;
};
/** Those of one schedule that were left out for one reason. */
export type Skipped = { schedule: string; reason: SkipReason; count: number; firstMs: number; lastMs: number };

export type Fired = {
  /** Rows that were read; fewer than the limit means that there were no more. */
  read: number;
  /** Schedules whose occurrences this call has decided. */
  taken: number;
  jobs: number;
  firings: Firing[];
  skipped: Skipped[];
  /** Jobs that a later occurrence wants stopped. */
  toCancel: string[];
  paused: string[];
  broken: { schedule: string; error: Error }[];
};

/** Decides up to `limit` due schedules of this share. */
export async function fireDue(db: Runner, limit: number, share: Share): Promise<Fired> {
  return firePlans(db, await db.run<DueSchedule>(due, [limit, share.of, share.index]), planFiring);
}

/** The same for schedules of any share that are late: whoever they belong to may have gone. */
export async function fireOverdue(db: Runner, limit: number): Promise<Fired> {
  return firePlans(db, await db.run<DueSchedule>(overdue, [limit]), planFiring);
}

/** Fires up to `limit` occurrences whose predecessor's job has ended. */
export async function fireWaiting(db: Runner, limit: number): Promise<Fired> {
  return firePlans(db, await db.run<DueSchedule>(waiting, [limit]), planWaiting);
}

/** Decides everything of one schedule whose nominal time has come, spread and jitter or not: before it is changed. */
export async function settleSchedule(db: Runner, id: string): Promise<Fired> {
  return firePlans(db, await db.run<DueSchedule>(unsettled, [id]), (compiled, status, nowMs) =>
    planFiring({ ...compiled, dueAt: (nominalMs) => nominalMs }, status, nowMs),
  );
}

type Versioned = Pick<DueSchedule, 'id' | 'version' | 'name' | 'definition'>;

/** The schedule ready to be asked. A change of its calendars is a new version of it. */
export function compiledFor(db: Runner, { id, version, name, definition }: Versioned): Promise<CompiledSchedule> {
  return compiledOnce(`${id} ${version}`, async () =>
    compileSchedule(name, definition, await calendarDates(db, definition.exclude?.calendars)),
  );
}

type Planner = typeof planFiring;

async function firePlans(db: Runner, rows: DueSchedule[], planner: Planner): Promise<Fired> {
  const fired: Fired = {
    read: rows.length,
    taken: 0,
    jobs: 0,
    firings: [],
    skipped: [],
    toCancel: [],
    paused: [],
    broken: [],
  };
  const plans = new Map<string, { row: DueSchedule; plan: Plan; written: Written }>();
  let workingSince = performance.now();
  for (const row of rows) {
    if (performance.now() - workingSince > MAX_WORK_MS) {
      await nextTurn();
      workingSince = performance.now();
    }
    try {
      const compiled = await compiledFor(db, row);
      const plan = planner(compiled, statusOf(row), row.nowMs);
      plans.set(row.id, { row, plan, written: toWritten(row, plan, compiled) });
    } catch (error) {
      // one that cannot be read must not keep the others from their time
      fired.broken.push({ schedule: row.name, error: error as Error });
      await db.run(quarantine, [row.id, row.revision, `its times cannot be found: ${(error as Error).message}`]);
    }
  }
  if (plans.size === 0) return fired;
  failpoint('fire.before');
  const batch = JSON.stringify(Array.from(plans.values(), ({ written }) => written));
  const [answer] = await db.run<{ taken: string[] }>(fire, [batch, ZONE_RULES]);
  failpoint('fire.committed');
  for (const id of answer?.taken ?? []) {
    const entry = plans.get(id);
    if (entry) addUp(fired, entry.row, entry.plan);
  }
  return fired;
}

function statusOf(row: DueSchedule) {
  return {
    handledUntilMs: row.handledUntilMs,
    fired: row.fired,
    previousLives: row.lives,
    waitingMs: row.waitingMs ?? undefined,
    failuresInARow: row.failures,
  };
}

/** The one that waits is fired; nothing else about the schedule changes. */
const planWaiting: Planner = (compiled, status) => {
  const nominalMs = status.waitingMs as number;
  const next = compiled.occurrences.after(status.handledUntilMs);
  return {
    occurrences: [{ nominalMs, dueMs: compiled.dueAt(nominalMs), state: 'fired' }],
    handledUntilMs: status.handledUntilMs,
    next: next === undefined ? undefined : { nominalMs: next, dueMs: compiled.dueAt(next) },
    waitingMs: undefined,
  };
};

type Written = ReturnType<typeof toWritten>;

/** A plan as the statement takes it. */
function toWritten(row: DueSchedule, plan: Plan, compiled: CompiledSchedule) {
  const occurrences = plan.occurrences.map(({ nominalMs, dueMs, state, reason, run }) => ({
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

function addUp(fired: Fired, row: DueSchedule, plan: Plan): void {
  fired.taken += 1;
  const skipped = new Map<SkipReason, Skipped>();
  for (const { nominalMs, dueMs, state, reason, run } of plan.occurrences) {
    const latenessMs = nominalMs === row.waitingMs ? undefined : row.nowMs - dueMs;
    if (state === 'fired') fired.firings.push({ schedule: row.name, nominalMs, latenessMs });
    if (reason === undefined) continue;
    const known = skipped.get(reason) ?? {
      schedule: row.name,
      reason,
      count: 0,
      firstMs: nominalMs,
      lastMs: nominalMs,
    };
    skipped.set(reason, { ...known, count: known.count + (run?.count ?? 1), lastMs: run?.lastMs ?? nominalMs });
  }
  fired.jobs = fired.firings.length;
  fired.skipped.push(...skipped.values());
  const cancels = row.definition.overlap === 'cancel-previous' && plan.waitingMs !== undefined;
  if (cancels && row.lastJobId) fired.toCancel.push(row.lastJobId);
  if (plan.pauseNote !== undefined) fired.paused.push(row.name);
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Running jobs that a later occurrence of their schedule waits for and wants stopped, but nobody has told so. */
const uncancelled = sql('schedules_uncancelled')`
select s.last_job_id::text as id
from drover.schedule s
join drover.job j on j.id = s.last_job_id
where s.waiting_at is not null and s.definition->>'overlap' = 'cancel-previous' and j.cancel_requested_at is null
limit $1`;

export async function jobsToCancel(db: Runner, limit: number): Promise<string[]> {
  return (await db.run<{ id: string }>(uncancelled, [limit])).map(({ id }) => id);
}
