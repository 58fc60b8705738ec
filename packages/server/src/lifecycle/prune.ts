/**
 * Deletes finished jobs after their retention. A day's partition is dropped when all of it is past the retention; if
 * some of its jobs have a longer retention, or are steps of a run that is not over, the others are deleted and the
 * partition stays. Jobs with a shorter
 * retention are deleted when their time is over. Every step is bounded and may be repeated.
 */
import type { Runner } from '../db/database.js';
import { DatabaseError } from '../db/database-error.js';
import { sql } from '../db/statement.js';

const DELETE_BATCH = 5000;
const UNDEFINED_TABLE = '42P01';

const ownRetention = sql('prune_own_retention')`
delete from drover.job_history
where keep_until <= now() and id = any(array(
  select id
  from drover.job_history
  where keep_until <= now() and (run_id is null or not exists (select from drover.needed_run n where n.id = run_id))
  limit ${DELETE_BATCH}
))
returning 1`;

const partitions = sql('history_partitions')`
select c.relname as name, to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (now() at time zone 'UTC') - $1::double precision * interval '1 millisecond' as past
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'drover.job_history'::regclass and c.relname ~ '^job_history_[0-9]{8}$'
order by c.relname`;

const otherPartition = sql('prune_other')`
delete from drover.job_history_other
where ctid = any(array(
  select ctid
  from drover.job_history_other
  where finished_at < now() - $1::double precision * interval '1 millisecond'
    and (keep_until is null or keep_until <= now())
    and (run_id is null or not exists (select from drover.needed_run n where n.id = run_id))
  limit ${DELETE_BATCH}
))
returning 1`;

const oldRollups = sql('prune_rollups')`
delete from drover.rollup where minute < now() - $1::double precision * interval '1 millisecond'`;

const oldSessions = sql('prune_sessions')`
delete from drover.session where ended_at < now() - $1::double precision * interval '1 millisecond'`;

const oldOccurrences = sql('prune_occurrences')`
delete from drover.occurrence
where ctid = any(array(
  select ctid
  from drover.occurrence
  where decided_at < now() - $1::double precision * interval '1 millisecond' and state <> 'waiting'
  limit ${DELETE_BATCH}
))
returning 1`;

/** So many lanes cost a claim next to nothing. */
const LANES_KEPT = 1000;
const idleLanes = sql('prune_lanes')`select drover.prune_lanes($1)`;

/** Partitions are created this many days ahead. Jobs of a day without one go to job_history_other. */
const DAYS_AHEAD = 3;
const makePartitions = sql('make_partitions')`select drover.ensure_history_partitions(${DAYS_AHEAD}) as made`;

export async function ensurePartitions(db: Runner): Promise<void> {
  await db.run(makePartitions);
}

/**
 * Deletes what is older than `retentionMs` by the database's clock. Returns the days whose partitions were dropped.
 */
export async function pruneHistory(db: Runner, retentionMs: number): Promise<{ dropped: string[] }> {
  while ((await db.run(ownRetention)).length === DELETE_BATCH);
  const dropped: string[] = [];
  for (const { name, past } of await db.run<{ name: string; past: boolean }>(partitions, [retentionMs])) {
    if (past && (await dropOrThin(db, name).catch(falseIfGone))) dropped.push(name);
  }
  while ((await db.run(otherPartition, [retentionMs])).length === DELETE_BATCH);
  await db.run(oldRollups, [retentionMs]);
  await db.run(oldSessions, [retentionMs]);
  return { dropped };
}

/** Deletes old occurrences of schedules, like finished jobs. */
export async function pruneOccurrences(db: Runner, retentionMs: number): Promise<void> {
  while ((await db.run(oldOccurrences, [retentionMs])).length === DELETE_BATCH);
}

/** Deletes lanes that are not used any more: queues and types may be named after customers or days. */
export async function pruneLanes(db: Runner, keep = LANES_KEPT): Promise<void> {
  await db.run(idleLanes, [keep]);
}

/** Returns whether the whole partition was dropped. Its name is one of ours, checked by the pattern above. */
async function dropOrThin(db: Runner, partition: string): Promise<boolean> {
  const table = `drover.${partition}`;
  const kept = await db.run(
    unnamed(
      `select 1 from ${table} where keep_until > now()
       union all
       (select 1 from drover.needed_run n join ${table} h on h.run_id = n.id)
       limit 1`,
    ),
  );
  if (kept.length === 0) {
    // waits for readers at most this long; the next round tries again
    await db.run(unnamed(`do $$ begin set local lock_timeout = '2s'; drop table ${table}; end $$`));
    return true;
  }
  const thin = unnamed(
    `delete from ${table} where ctid = any(array(
       select ctid from ${table}
       where (keep_until is null or keep_until <= now())
         and (run_id is null or not exists (select from drover.needed_run n where n.id = run_id))
       limit ${DELETE_BATCH})) returning 1`,
  );
  while ((await db.run(thin)).length === DELETE_BATCH);
  return false;
}

/** Another server dropped it at the same time. */
function falseIfGone(error: unknown): false {
  if (error instanceof DatabaseError && error.sqlState === UNDEFINED_TABLE) return false;
  throw error;
}

function unnamed(text: string) {
  return { name: '', text };
}
