/**
 * Fires one occurrence of a schedule now, also of a paused one. It leaves the next time alone and does not count for the overlap
 * policy, the failures or `maxOccurrences`.
 */
import { DroverError, newId } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import { sql } from '../db/statement.js';
import { madeJobs } from './ledger.js';
import { NOW, scheduleNotFound } from './schedule-row.js';

/** Triggers of one schedule that may fall into the same milliseconds. */
const MAX_ATTEMPTS = 20;

const find = sql('schedule_id')`select id::text as id from drover.schedule where name = $1`;

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

/** Returns the nominal time. The same id again is the same occurrence. */
export async function triggerSchedule(db: Runner, name: string, id: string = newId()): Promise<string> {
  const [schedule] = await db.run<{ id: string }>(find, [name]);
  if (!schedule) throw scheduleNotFound(name);
  for (let laterMs = 0; laterMs < MAX_ATTEMPTS; laterMs++) {
    const [before] = await db.run<{ nominalAt: string }>(known, [schedule.id, id]);
    if (before) {
      // an earlier trigger, whose answer may have been lost, may be committed on the primary alone
      await replicationBarrier(db);
      return before.nominalAt;
    }
    const [made] = await db.run<{ nominalAt: string }>(trigger, [schedule.id, id, laterMs]);
    if (made) return made.nominalAt;
  }
  throw new DroverError('overloaded', `schedule ${name} is triggered too often; try again later`);
}
