/**
 * Fires the occurrences of a range that have no job. It leaves the next time of the schedule alone and does not count for the
 * overlap policy, the failures or `maxOccurrences`.
 */
import { type Backfilled, DroverError, LIMITS, newId } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { madeJobs, OVERWRITE_DECISION } from './ledger.js';
import { readTimetables } from './read-timetables.js';
import { milliseconds, scheduleNotFound } from './schedule-row.js';
import type { Definition, Timetable } from './timing/timetable.js';

/** Occurrences that one statement fires. */
const BATCH = 1000;

const find = sql('schedule_to_backfill')`
select id::text as id, name, definition, ${milliseconds('now()')} as "nowMs" from drover.schedule where name = $1`;

const backfill = sql('schedule_backfill')`
with taken as (
  select id from drover.schedule where id = $1
), decided as (
  insert into drover.occurrence as o (schedule_id, nominal_at, due_at, kind, state, job_id)
  select t.id, x.nominal_at, x.nominal_at, 'backfilled', 'fired', x.job_id
  from taken t
  cross join json_to_recordset($2) as x(nominal_at timestamptz, job_id uuid)
  ${OVERWRITE_DECISION}
  where o.state = 'skipped'
  returning schedule_id, nominal_at, state, job_id
), ${madeJobs('now()')}
select count(*)::int as fired, (select count(*) from made) as made from decided`;

/** The occurrences of the range that have a job, or wait for one. */
const already = sql('schedule_already')`
select drover.iso(nominal_at) as at
from drover.occurrence
where schedule_id = $1 and nominal_at between $2 and $3 and state <> 'skipped'`;

type Stored = { id: string; name: string; definition: Definition; nowMs: number };

/** The range ends now at the latest: future occurrences are fired when they are due. */
export async function backfillSchedule(
  db: Runner,
  name: string,
  { from, to, dryRun }: { from: string; to: string; dryRun: boolean },
): Promise<Backfilled> {
  const [schedule] = await db.run<Stored>(find, [name]);
  if (!schedule) throw scheduleNotFound(name);
  const timetableOf = await readTimetables(db, [schedule]);
  const times = occurrencesIn(timetableOf(schedule), Date.parse(from), Math.min(Date.parse(to), schedule.nowMs));
  const done = new Set((await db.run<{ at: string }>(already, [schedule.id, from, to])).map(({ at }) => at));
  const missing = times.filter((time) => !done.has(time));
  const counted = { occurrences: times.length, already: times.length - missing.length, dryRun };
  if (dryRun) return { ...counted, fired: missing.length };
  let fired = 0;
  for (let start = 0; start < missing.length; start += BATCH) {
    const batch = missing.slice(start, start + BATCH).map((time) => ({ nominal_at: time, job_id: newId() }));
    const [answer] = await db.run<{ fired: number }>(backfill, [schedule.id, JSON.stringify(batch)]);
    fired += answer?.fired ?? 0;
  }
  return { ...counted, fired };
}

function occurrencesIn({ occurrences }: Timetable, fromMs: number, toMs: number): string[] {
  const times: string[] = [];
  for (let ms = occurrences.after(fromMs - 1); ms !== undefined && ms <= toMs; ms = occurrences.after(ms)) {
    times.push(new Date(ms).toISOString());
    if (times.length > LIMITS.backfillOccurrences) {
      const message = `expected a range of at most ${LIMITS.backfillOccurrences} occurrences, this one has more`;
      throw new DroverError('range_too_large', message, { limit: LIMITS.backfillOccurrences });
    }
  }
  return times;
}
