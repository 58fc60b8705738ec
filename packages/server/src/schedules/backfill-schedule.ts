/**
 * Occurrences by hand: a trigger fires one now, a backfill those of a range that have no job. Both leave the next time of
 * the schedule alone and do not count for its overlap policy, its failures or its `maxOccurrences`.
 */
import { type Backfilled, DroverError, LIMITS, newId } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { compiledFor } from './fire-due.js';
import { scheduleNotFound } from './put-schedule.js';
import { NOW } from './schedule-row.js';
import type { Definition } from './timing/timetable.js';
import { DECIDED_ANEW, madeJobs } from './write-firings.js';

const find = sql('schedule_for_hand')`
select id::text as id, name, version, definition from drover.schedule where name = $1`;

const known = sql('triggered_before')`
select drover.iso(nominal_at) as "nominalAt"
from drover.occurrence
where schedule_id = $1 and job_id = $2 and kind = 'triggered'`;

/** The nominal time is the present; if that has an occurrence already, the next free millisecond. */
const trigger = sql('schedule_trigger')`
with taken as (
  select id from drover.schedule where id = $1
), decided as (
  insert into drover.occurrence (schedule_id, nominal_at, due_at, kind, state, job_id)
  select id, ${NOW} + $3::int * interval '1 millisecond', now(), 'triggered', 'fired', $2
  from taken
  on conflict (schedule_id, nominal_at) do nothing
  returning schedule_id, nominal_at, state, job_id
), ${madeJobs("drover.id_time($2) - interval '1 day'")}
select drover.iso(nominal_at) as "nominalAt", (select count(*) from made) as made from decided`;

const backfill = sql('schedule_backfill')`
with taken as (
  select id from drover.schedule where id = $1
), decided as (
  insert into drover.occurrence as o (schedule_id, nominal_at, due_at, kind, state, job_id)
  select t.id, x.nominal_at, x.nominal_at, 'backfilled', 'fired', x.job_id
  from taken t
  cross join json_to_recordset($2) as x(nominal_at timestamptz, job_id uuid)
  ${DECIDED_ANEW}
  where o.state = 'skipped'
  returning schedule_id, nominal_at, state, job_id
), ${madeJobs('now()')}
select count(*)::int as fired, (select count(*) from made) as made from decided`;

/** Those of the range that have a job, or wait for one. */
const already = sql('schedule_already')`
select drover.iso(nominal_at) as at
from drover.occurrence
where schedule_id = $1 and nominal_at between $2 and $3 and state <> 'skipped'`;

const presence = sql('schedule_now')`select drover.iso(now()) as now`;

const TRIES = 20;
const BATCH = 1000;

/** Fires one occurrence now and gives its nominal time. The same id again is the same occurrence. */
export async function triggerSchedule(db: Runner, name: string, id: string = newId()): Promise<string> {
  const [schedule] = await db.run<{ id: string }>(find, [name]);
  if (!schedule) throw scheduleNotFound(name);
  for (let later = 0; later < TRIES; later++) {
    const [before] = await db.run<{ nominalAt: string }>(known, [schedule.id, id]);
    if (before) return before.nominalAt;
    const [made] = await db.run<{ nominalAt: string }>(trigger, [schedule.id, id, later]);
    if (made) return made.nominalAt;
  }
  throw new DroverError('overloaded', `the schedule ${name} is triggered too often at this moment`);
}

/** Fires what the range has and the ledger has not. The future is left to the schedule itself. */
export async function backfillSchedule(
  db: Runner,
  name: string,
  { from, to, dryRun }: { from: string; to: string; dryRun: boolean },
): Promise<Backfilled> {
  const [schedule] = await db.run<{ id: string; name: string; version: number; definition: Definition }>(find, [name]);
  if (!schedule) throw scheduleNotFound(name);
  const [present] = await db.run<{ now: string }>(presence);
  const end = Math.min(Date.parse(to), Date.parse((present as { now: string }).now));
  const times = await occurrencesIn(db, schedule, Date.parse(from), end);
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

async function occurrencesIn(
  db: Runner,
  schedule: { id: string; name: string; version: number; definition: Definition },
  fromMs: number,
  toMs: number,
): Promise<string[]> {
  const { occurrences } = await compiledFor(db, schedule);
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
