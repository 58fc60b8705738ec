/**
 * Follows new time zone rules: governments change them, and they come with a new version of Node. When a server
 * starts, it corrects once the next times that were found by older rules, and from then on those that servers with
 * older rules write. Only newer rules replace older ones, so the servers of a rolling upgrade do not undo each
 * other's work. A server with older rules still fires what is due.
 *
 * The next occurrence means a local time. If new rules move that local time, the schedule continues with it, wherever
 * the last occurrence was. Rejected: counting from the last occurrence. A local time that moved to before it would
 * never be fired, and where clocks were set back the last one would be fired again. Patterns of every hour and
 * intervals do not mean local times and count from the last occurrence.
 *
 * Limit: the old offset is known of the next time, not of the last one. If only one of the two has moved, and they
 * are closer than the change of the offset or the last one was fired within it, one occurrence may be left out or
 * fired again.
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

/** All schedules in the order of their ids; UTC has no rules. */
const older = sql('schedules_of_older_rules')`
select ${COLUMNS}
from drover.schedule
where id > $3 and next_at is not null and coalesce(zone_rules, '') < $1 and definition->>'timeZone' <> 'UTC'
-- by the column, not by the text of the same name
order by schedule.id
limit $2`;

/** A server with older rules than ours, the first parameter, has replaced a next time of newer ones. */
export const RULES_OUTDATED = 'rules_outdated and zone_rules < $1 and next_at is not null';

const outdated = sql('schedules_outdated')`
select ${COLUMNS}
from drover.schedule
where ${RULES_OUTDATED}
order by zone_rules, schedule.id
limit $2`;

/** Lower than all ids. */
export const FIRST_ID = '0';

/**
 * Corrects one batch of schedules after this id. Returns the id to continue after, or undefined when a pass from the
 * start found no schedule: rows that were locked are tried again in another pass.
 */
export async function followNewRules(
  db: Runner,
  limit: number,
  afterId: string,
  rules = ZONE_RULES,
): Promise<string | undefined> {
  const rows = await db.run<OutdatedSchedule>(older, [rules, limit, afterId]);
  await correct(db, rows, rules);
  if (rows.length === limit) return rows.at(-1)?.id;
  return rows.length === 0 && afterId === FIRST_ID ? undefined : FIRST_ID;
}

/** Corrects the next times that servers with older rules have written since. */
export async function replaceOlderRules(db: Runner, limit: number, rules = ZONE_RULES): Promise<void> {
  await correct(db, await db.run<OutdatedSchedule>(outdated, [rules, limit]), rules);
}

async function correct(db: Runner, rows: OutdatedSchedule[], rules: string): Promise<void> {
  await writeNextTimes(db, rows, { countFrom, rules });
}

/** The time after which the first occurrence is the local time that was next. */
function countFrom(row: OutdatedSchedule, { definition, occurrences }: Timetable): number {
  const { handledUntilMs, nextMs, nextOffsetMs } = row;
  const zone = zoneOf(definition.timeZone);
  const isMoved = nextOffsetMs !== null && offsetAt(zone, nextMs) !== nextOffsetMs;
  if (!isMoved || !meansLocalTimes(definition)) return handledUntilMs;
  const movedMs = timeOf(zone, nextMs + nextOffsetMs);
  if (movedMs <= handledUntilMs) return movedMs - 1;
  // the occurrences in between were fired by the old rules: those of the hour or two by which the clocks differ
  let handledMs = handledUntilMs;
  for (let again = occurrences.after(handledMs); again !== undefined && again < movedMs; ) {
    // except the next one, if the old rules had shifted it out of a gap that the new ones do not have: it has not moved
    if (again === nextMs && again + offsetAt(zone, again) > handledUntilMs + nextOffsetMs) break;
    handledMs = again;
    again = occurrences.after(handledMs);
  }
  return handledMs;
}

function meansLocalTimes({ specs }: Definition): boolean {
  return specs.every((spec) => spec.kind === 'cron' && !isOfEveryHour(parseCron(spec.cron)));
}

/** The first time at which local clocks show this; near a change of clocks it may be one close to it. */
function timeOf(zone: Zone, localMs: number): number {
  const guess = localMs - offsetAt(zone, localMs);
  return localMs - offsetAt(zone, guess);
}
