/**
 * The only statement of a server whose schedules are idle: it probes indexes that are empty, or the start of one.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { RULES_OUTDATED } from './follow-rules.js';
import { ZONE_RULES } from './timing/zone.js';

const findWorkStatement = sql('schedules_find_work')`
select
  (select extract(epoch from min(due_at) - clock_timestamp()) * 1000 from drover.schedule where due_at is not null)
    as "dueInMs",
  exists (select from drover.schedule where waiting_at is not null and paused_at is null)
    or exists (select from drover.schedule where ${RULES_OUTDATED}) as "needsUpkeep"`;

export type Work = {
  /** Milliseconds until the next schedule is due. Negative: overdue; null: none will be. */
  dueInMs: number | null;
  /** Whether an occurrence waits for a job, or a next time was found by outdated rules. */
  needsUpkeep: boolean;
};

export async function findWork(db: Runner): Promise<Work> {
  const [row] = await db.run<{ dueInMs: string | null; needsUpkeep: boolean }>(findWorkStatement, [ZONE_RULES]);
  return { dueInMs: row?.dueInMs == null ? null : Number(row.dueInMs), needsUpkeep: row?.needsUpkeep ?? false };
}
