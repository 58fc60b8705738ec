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
import type { SkipReason } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { calendarDates } from './calendars.js';
import { type Plan, planFiring } from './plan-firing.js';
import { milliseconds } from './schedule-row.js';
import { compiledOnce, createTimetable, type Definition, type Timetable } from './timing/timetable.js';
import { toWritten, type Written, writeFirings } from './write-firings.js';

/** Which of the schedules are this server's own: those whose id leaves `index` when divided by `of`. */
export type Share = { index: number; of: number };

/** A schedule of another server's share is taken over when it is this late. */
export const OVERDUE_MS = 1000;

/** After so long of planning others get a turn of the event loop: one schedule may have 20,000 occurrences to look at. */
const MAX_WORK_MS = 20;

/** A job that the person's "unknown" ended for the schedule: its lease is over, and nobody knows when it will be settled. */
const LIVES = `exists (
    -- "offset": PostgreSQL must not read all jobs to look for this one among them (see db/by-key)
    select from drover.job j where j.id = s.last_job_id and j.state <> 'unknown' offset 0
  )`;

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
    join drover.job_history h on ${byKey('h.id', 'latest.job_id')} and h.finished_at >= latest.decided_at
    -- as text, or PostgreSQL may think of reading all that failed
    where h.state::text = 'failed'
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
export function compiledFor(db: Runner, { id, version, name, definition }: Versioned): Timetable | Promise<Timetable> {
  const calendars = definition.exclude?.calendars;
  if (!calendars?.length) return createTimetable(name, definition, []);
  return compiledOnce(`${id} ${version}`, async () =>
    createTimetable(name, definition, await calendarDates(db, calendars)),
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
  const taken = await writeFirings(
    db,
    Array.from(plans.values(), ({ written }) => written),
  );
  failpoint('fire.committed');
  for (const id of taken ?? plans.keys()) {
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

/** Running jobs that a later occurrence of their schedule waits for and wants stopped, but nobody has told so. */
const uncancelled = sql('schedules_uncancelled')`
select s.last_job_id::text as id
from drover.schedule s
join drover.job j on ${byKey('j.id', 's.last_job_id')}
where s.waiting_at is not null and s.definition->>'overlap' = 'cancel-previous' and j.cancel_requested_at is null
limit $1`;

export async function jobsToCancel(db: Runner, limit: number): Promise<string[]> {
  return (await db.run<{ id: string }>(uncancelled, [limit])).map(({ id }) => id);
}
