/**
 * New rules of time zones: governments change them, and they come with the next Node. A server looks once, when it starts,
 * through the schedules whose next time was found by older rules, and from then on at what servers with older ones have fired
 * since. Only newer rules replace older ones, so the servers of a rolling upgrade do not undo each other's work; a server
 * with older rules still fires what is due.
 *
 * What waits to be fired is a time on the wall. Where its moment has moved, the schedule goes on with it, wherever the last
 * one was: counted from the last moment instead, a time that moved to before it would never come, and where clocks have
 * been set back the last one would come again. Patterns of every hour and intervals do not mean times on the wall, and
 * count from the last moment.
 *
 * Limit: the old offset is known of the next time and not of the last one. If only one of the two has moved, and they are less than
 * the difference of the clocks apart or the last one was fired within that time, one may be left out or come again.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { PROGRESS_COLUMNS, type ScheduleProgress, writeNextTimes } from './next-times.js';
import { milliseconds } from './schedule-row.js';
import { isOfEveryHour, parseCron } from './timing/cron.js';
import type { Definition, Timetable } from './timing/timetable.js';
import { offsetAt, ZONE_RULES, type Zone, zoneOf } from './timing/zone.js';

type OutdatedSchedule = ScheduleProgress & { nextMs: number; nextOffsetMs: number | null };

const COLUMNS = `${PROGRESS_COLUMNS}, ${milliseconds('next_at')} as "nextMs", next_offset_ms as "nextOffsetMs"`;

/** All of them, by their ids; UTC has no rules. */
const older = sql('schedules_of_older_rules')`
select ${COLUMNS}
from drover.schedule
where id > $3 and next_at is not null and coalesce(zone_rules, '') < $1 and definition->>'timeZone' <> 'UTC'
-- not the id as text that is selected
order by schedule.id
limit $2`;

/** Its next time was found by older rules than ours, the first parameter, after newer ones had been used for it. */
export const RULES_OUTDATED = 'rules_outdated and zone_rules < $1 and next_at is not null';

const outdated = sql('schedules_outdated')`
select ${COLUMNS}
from drover.schedule
where ${RULES_OUTDATED}
order by zone_rules, schedule.id
limit $2`;

/** Before all ids. */
export const FIRST_ID = '0';

/**
 * One batch of those with older rules after this id. Gives after which id to go on, or undefined when a look from the start
 * found none: whatever somebody else had locked is looked at again.
 */
export async function followNewRules(
  db: Runner,
  limit: number,
  afterId: string,
  rules = ZONE_RULES,
): Promise<string | undefined> {
  const rows = await db.run<OutdatedSchedule>(older, [rules, limit, afterId]);
  await moveAll(db, rows, rules);
  if (rows.length === limit) return rows.at(-1)?.id;
  return rows.length === 0 && afterId === FIRST_ID ? undefined : FIRST_ID;
}

/** The next times that servers with older rules have written since. */
export async function replaceOlderRules(db: Runner, limit: number, rules = ZONE_RULES): Promise<void> {
  await moveAll(db, await db.run<OutdatedSchedule>(outdated, [rules, limit]), rules);
}

async function moveAll(db: Runner, rows: OutdatedSchedule[], rules: string): Promise<void> {
  await writeNextTimes(db, rows, { countFrom, rules });
}

/** The moment after which the first one is what was next on the wall. */
function countFrom(row: OutdatedSchedule, { definition, occurrences }: Timetable): number {
  const { handledUntilMs, nextMs, nextOffsetMs } = row;
  const zone = zoneOf(definition.timeZone);
  const isMoved = nextOffsetMs !== null && offsetAt(zone, nextMs) !== nextOffsetMs;
  if (!isMoved || !meansTheWall(definition)) return handledUntilMs;
  const moment = momentOf(zone, nextMs + nextOffsetMs);
  if (moment <= handledUntilMs) return moment - 1;
  // those in between were fired by the old rules: as many as there are in the hour or two that the clocks differ
  let handledMs = handledUntilMs;
  for (let again = occurrences.after(handledMs); again !== undefined && again < moment; ) {
    // but for the one that waits, if a gap of the old rules had shifted it and the new ones have no gap: its moment has not moved
    if (again === nextMs && again + offsetAt(zone, again) > handledUntilMs + nextOffsetMs) break;
    handledMs = again;
    again = occurrences.after(handledMs);
  }
  return handledMs;
}

function meansTheWall({ specs }: Definition): boolean {
  return specs.every((spec) => spec.kind === 'cron' && !isOfEveryHour(parseCron(spec.cron)));
}

/** The first moment with this time on the wall; near a change of clocks that may be one beside it. */
function momentOf(zone: Zone, wallMs: number): number {
  const guess = wallMs - offsetAt(zone, wallMs);
  return wallMs - offsetAt(zone, guess);
}
