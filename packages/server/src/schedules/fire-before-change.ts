/**
 * Before a change, everything that the old definition has made due is decided, in the transaction of the change. So no
 * occurrence is lost or fired twice: those up to now belong to the old definition, those after it to the new one.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { DUE_COLUMNS, type DueSchedule } from './due-schedules.js';
import { type Decisions, decide } from './fire-due.js';
import { planFiring } from './plan-firing.js';
import type { Report } from './report.js';

const BATCH = 500;

const nominallyDue = sql('schedules_nominally_due')`
select ${DUE_COLUMNS} from drover.schedule s where s.id = any($1::bigint[]) and s.next_at <= now() limit ${BATCH}`;

/**
 * The transaction must hold the rows of these schedules. Spread and jitter do not count: the new definition may have others.
 *
 * A backlog takes several rounds. They come to an end, because now() stands for the start of the transaction and no other server
 * can take the rows; the deadline of the transaction is their limit.
 */
export async function fireBeforeChange(tx: Runner, ids: readonly string[]): Promise<Decisions[]> {
  const rounds: Decisions[] = [];
  for (;;) {
    const rows = await tx.run<DueSchedule>(nominallyDue, [ids]);
    if (rows.length === 0) return rounds;
    rounds.push(
      await decide(tx, rows, (timetable, status, nowMs) =>
        planFiring({ ...timetable, dueAt: (nominalMs) => nominalMs }, status, nowMs),
      ),
    );
  }
}

/** Call it after the commit: what is rolled back has not happened. */
export function reportAll(report: Report, rounds: readonly Decisions[]): void {
  for (const round of rounds) report(round);
}
