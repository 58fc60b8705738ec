/**
 * Fires what is due. Any number of servers do it at the same time:
 *
 * 1. read the due schedules, without a lock (due-schedules);
 * 2. plan their occurrences from that and the database's clock (plan-firing, pure);
 * 3. write the ledger, the jobs and the next times in one statement (write-firings), for each schedule whose row
 *    still has the revision that was read and that no other transaction has locked.
 *
 * So each occurrence is decided once. A server that dies before 3 has changed nothing, one that dies after 3 has done
 * everything, and a change of the schedule in between makes the plan void: the schedule is read again.
 *
 * Rejected: one transaction that holds locks from 1 to 3. It would save other servers their plans, but a server that
 * freezes in the middle would block them. Instead each server takes its own share of the schedules first, by their
 * ids, and those of others when they are OVERDUE_MS late.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SkipReason } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type DueSchedule, readDue, readOverdue, readReleased, type Share } from './due-schedules.js';
import { unreadableNote } from './next-times.js';
import { type Plan, planFiring } from './plan-firing.js';
import { readTimetables } from './read-timetables.js';
import { toWritten, type Written, writeFirings } from './write-firings.js';

/** After this much planning other work gets a turn of the event loop: one schedule may have 20,000 occurrences to decide. */
const MAX_WORK_MS = 20;

/** An occurrence that was fired. */
export type Firing = {
  schedule: string;
  nominalMs: number;
  /** Undefined: it had to wait for the job before it. */
  latenessMs: number | undefined;
};
/** Occurrences of one schedule that were skipped for one reason. */
export type Skipped = { schedule: string; reason: SkipReason; count: number; firstMs: number; lastMs: number };

/** The decisions on one batch of schedules. */
export type Decisions = {
  /** Rows that were read; fewer than the limit means that there were no more. */
  read: number;
  /** Schedules whose occurrences this call has decided. */
  taken: number;
  jobs: number;
  firings: Firing[];
  skipped: Skipped[];
  /** Jobs that must stop for a later occurrence. */
  toCancel: string[];
  /** Schedules that have paused themselves because their jobs failed. */
  paused: string[];
  /** Schedules that were paused because they cannot be read. */
  broken: { schedule: string; error: Error }[];
};

/** Decides up to `limit` due schedules of this share. */
export async function fireDue(db: Runner, limit: number, share: Share): Promise<Decisions> {
  return decide(db, await readDue(db, limit, share), planFiring);
}

/** The same for late schedules of any share. */
export async function fireOverdue(db: Runner, limit: number): Promise<Decisions> {
  return decide(db, await readOverdue(db, limit), planFiring);
}

/** Fires up to `limit` occurrences that waited for a job which has finished meanwhile. */
export async function fireWaiting(db: Runner, limit: number): Promise<Decisions> {
  return decide(db, await readReleased(db, limit), planWaiting);
}

type Planner = typeof planFiring;
type Planned = { row: DueSchedule; plan: Plan; written: Written };

export async function decide(db: Runner, rows: readonly DueSchedule[], planner: Planner): Promise<Decisions> {
  const decisions: Decisions = {
    ...{ read: rows.length, taken: 0, jobs: 0 },
    ...{ firings: [], skipped: [], toCancel: [], paused: [], broken: [] },
  };
  if (rows.length === 0) return decisions;
  const { planned, broken } = await planAll(db, rows, planner);
  for (const { row, error } of broken) {
    decisions.broken.push({ schedule: row.name, error });
    await db.run(quarantine, [row.id, row.revision, unreadableNote(error)]);
  }
  if (planned.length === 0) return decisions;
  failpoint('fire.before');
  const taken = await writeFirings(
    db,
    planned.map(({ written }) => written),
  );
  failpoint('fire.committed');
  for (const { row, plan } of planned) if (taken === null || taken.has(row.id)) add(decisions, row, plan);
  return decisions;
}

async function planAll(db: Runner, rows: readonly DueSchedule[], planner: Planner) {
  const timetableOf = await readTimetables(db, rows);
  const planned: Planned[] = [];
  const broken: { row: DueSchedule; error: Error }[] = [];
  let workingSince = performance.now();
  for (const row of rows) {
    if (performance.now() - workingSince > MAX_WORK_MS) {
      await nextTurn();
      workingSince = performance.now();
    }
    try {
      const timetable = timetableOf(row);
      const plan = planner(timetable, { ...row, waitingMs: row.waitingMs ?? undefined }, row.nowMs);
      planned.push({ row, plan, written: toWritten(row, plan, timetable) });
    } catch (error) {
      broken.push({ row, error: error as Error });
    }
  }
  return { planned, broken };
}

/** A schedule that cannot be read must not keep the others of its batch from being fired. */
const quarantine = sql('schedule_quarantine')`
update drover.schedule
set next_at = null, due_at = null, paused_at = now(), paused_by = 'drover', pause_note = $3, revision = revision + 1
where id = $1 and revision = $2`;

/** Fires the occurrence that waits; nothing else about the schedule changes. */
const planWaiting: Planner = (timetable, { waitingMs, handledUntilMs }) => {
  const next = timetable.occurrences.after(handledUntilMs);
  return {
    occurrences:
      waitingMs === undefined
        ? []
        : [{ nominalMs: waitingMs, dueMs: timetable.dueAt(waitingMs), state: 'fired' as const }],
    handledUntilMs,
    next: next === undefined ? undefined : { nominalMs: next, dueMs: timetable.dueAt(next) },
    waitingMs: undefined,
  };
};

function add(decisions: Decisions, row: DueSchedule, plan: Plan): void {
  decisions.taken += 1;
  const skipped = new Map<SkipReason, Skipped>();
  for (const { nominalMs, dueMs, state, reason, run } of plan.occurrences) {
    const latenessMs = nominalMs === row.waitingMs ? undefined : row.nowMs - dueMs;
    if (state === 'fired') decisions.firings.push({ schedule: row.name, nominalMs, latenessMs });
    if (reason === undefined) continue;
    const known = skipped.get(reason) ?? {
      ...{ schedule: row.name, reason, count: 0 },
      ...{ firstMs: nominalMs, lastMs: nominalMs },
    };
    skipped.set(reason, { ...known, count: known.count + (run?.count ?? 1), lastMs: run?.lastMs ?? nominalMs });
  }
  decisions.jobs = decisions.firings.length;
  decisions.skipped.push(...skipped.values());
  const cancels = row.definition.overlap === 'cancel-previous' && plan.waitingMs !== undefined;
  if (cancels && row.lastJobId) decisions.toCancel.push(row.lastJobId);
  if (plan.pauseNote !== undefined) decisions.paused.push(row.name);
}
