/**
 * Fires one occurrence of a schedule now, also of a paused one. It leaves the next time alone and does not count for the overlap
 * policy, the failures or `maxOccurrences`.
 */
import { DroverError, newId } from '@drover/protocol';
import type { Runner, TransactionRunner } from '../db/database.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import { sql } from '../db/statement.js';
import { madeJobs } from './ledger.js';
import { NOW, scheduleNotFound } from './schedule-row.js';

/** A try fails only if the schedule itself fires in the same millisecond. */
const MAX_TRIES = 5;

const find = sql('schedule_id')`select id::text as id from drover.schedule where name = $1`;

/** Not the row of the schedule: a server that fires skips schedules whose row is locked. */
const oneAtATime = sql('schedule_trigger_lock')`
select pg_advisory_xact_lock(hashtextextended('drover.schedule_trigger ' || $1::text, 0))`;

const known = sql('triggered_before')`
select drover.iso(nominal_at) as "nominalAt"
from drover.occurrence
where schedule_id = $1 and job_id = $2 and kind = 'triggered'`;

/** The nominal time is the present; if that has an occurrence already, the next free millisecond. */
const trigger = sql('schedule_trigger')`
with free as (
  select ${NOW} + ms * interval '1 millisecond' as nominal_at
  from generate_series(0, 1000) ms
  where not exists (
    select from drover.occurrence o
    where o.schedule_id = $1 and o.nominal_at = ${NOW} + ms * interval '1 millisecond'
  )
  order by ms
  limit 1
), decided as (
  insert into drover.occurrence (schedule_id, nominal_at, due_at, kind, state, job_id)
  select s.id, free.nominal_at, now(), 'triggered', 'fired', $2
  from drover.schedule s
  cross join free
  where s.id = $1
  on conflict (schedule_id, nominal_at) do nothing
  returning schedule_id, nominal_at, state, job_id
), ${madeJobs("drover.id_time($2) - interval '1 day'")}
select drover.iso(nominal_at) as "nominalAt", (select count(*) from made) as made from decided`;

type Triggered = { nominalAt: string };

/** Called in the transaction that has fired. */
type OnFired = (tx: Runner, fired: Triggered & { jobId: string }) => Promise<void>;

/** Returns the nominal time. The same id again, also at the same time, is the same occurrence. */
export async function triggerSchedule(
  db: TransactionRunner,
  name: string,
  id: string = newId(),
  onFired?: OnFired,
): Promise<string> {
  const [schedule] = await db.run<{ id: string }>(find, [name]);
  if (!schedule) throw scheduleNotFound(name);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const { before, made } = await db.transaction(async (tx) => {
      await tx.run(oneAtATime, [schedule.id]);
      const [before] = await tx.run<Triggered>(known, [schedule.id, id]);
      const [made] = before === undefined ? await tx.run<Triggered>(trigger, [schedule.id, id]) : [];
      if (made) await onFired?.(tx, { nominalAt: made.nominalAt, jobId: id });
      return { before, made };
    });
    // an earlier trigger, whose answer may have been lost, may be committed on the primary alone
    if (before !== undefined) await replicationBarrier(db);
    const occurrence = before ?? made;
    if (occurrence !== undefined) return occurrence.nominalAt;
  }
  throw new DroverError('overloaded', `schedule ${name} is triggered too often; try again later`);
}
