/**
 * The one statement of an idle server's schedules: each of its questions is a probe of an index that is empty, or of the
 * start of one.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { OUTDATED } from './follow-rules.js';
import { UNARMED } from './next-times.js';
import { ZONE_RULES } from './timing/zone.js';

const look = sql('schedules_find_work')`
select
  (select extract(epoch from min(due_at) - clock_timestamp()) * 1000 from drover.schedule where due_at is not null)
    as "dueInMs",
  exists (select from drover.schedule where ${UNARMED})
    or exists (select from drover.schedule where waiting_at is not null and paused_at is null)
    or exists (select from drover.schedule where ${OUTDATED}) as "needsUpkeep"`;

/** When the next schedule is due (negative: overdue; null: none), and whether any wants more than being fired. */
export async function findWork(db: Runner): Promise<{ dueInMs: number | null; needsUpkeep: boolean }> {
  const [row] = await db.run<{ dueInMs: string | null; needsUpkeep: boolean }>(look, [ZONE_RULES]);
  return { dueInMs: row?.dueInMs == null ? null : Number(row.dueInMs), needsUpkeep: row?.needsUpkeep ?? false };
}
