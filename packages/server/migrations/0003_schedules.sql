-- compatible-with: 1
--
-- Schedules and what became of each of their occurrences.
--
-- What always holds:
-- - all nominal times of a schedule up to handled_until are decided and in drover.occurrence (as far as that
--   is kept), those after it are not: one statement writes both, with the jobs it makes;
-- - revision grows with every change of a row, so whoever computed from an older one changes nothing;
-- - a schedule that is neither paused nor ended and has no next time is about to get one: see schedules/arm.

create table drover.schedule (
  -- not the name: a schedule that is deleted and made again is another one
  id bigint generated always as identity primary key,
  name text collate "C" not null unique,
  group_name text collate "C",
  definition json not null,
  -- as drover.insert_jobs takes it, but for what each firing adds
  job json not null,
  -- the names of the calendars it excludes; null if none
  calendars text[],
  version int not null default 1,
  revision bigint not null default 0,
  -- the nominal time of the next occurrence, and when it is due by spread and jitter
  next_at timestamptz,
  due_at timestamptz,
  handled_until timestamptz not null,
  -- the nominal time of an occurrence that waits for the job of the one before
  waiting_at timestamptz,
  last_job_id uuid,
  last_fired_at timestamptz,
  fired bigint not null default 0,
  skipped bigint not null default 0,
  pause_after_failures int,
  -- failures before this moment are not counted
  resumed_at timestamptz not null default '-infinity',
  ended boolean not null default false,
  paused_at timestamptz,
  paused_by text,
  pause_note text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint schedule_has_both_times check ((next_at is null) = (due_at is null)),
  constraint schedule_rests check (next_at is null or (paused_at is null and not ended))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- What is due is the start of this index, so idle schedules cost nothing.
create index schedule_due on drover.schedule (due_at) where due_at is not null;
-- These two are usually empty.
create index schedule_unarmed on drover.schedule (id) where due_at is null and paused_at is null and not ended;
create index schedule_waiting on drover.schedule (id) where waiting_at is not null;
create index schedule_group on drover.schedule (group_name, name) where group_name is not null;
create index schedule_calendars on drover.schedule using gin (calendars) where calendars is not null;

-- The ledger: one row for each occurrence that was decided.
create table drover.occurrence (
  schedule_id bigint not null,
  nominal_at timestamptz not null,
  due_at timestamptz not null,
  decided_at timestamptz not null default now(),
  job_id uuid,
  kind text not null check (kind in ('scheduled', 'triggered', 'backfilled')),
  state text not null check (state in ('fired', 'waiting', 'skipped')),
  reason text,
  primary key (schedule_id, nominal_at),
  constraint occurrence_has_a_job check ((state = 'fired') = (job_id is not null)),
  constraint occurrence_has_a_reason check ((state = 'skipped') = (reason is not null))
);
-- for retention; rows come in the order of this column, so a range of blocks is a range of time
create index occurrence_decided on drover.occurrence using brin (decided_at);
create index occurrence_triggered on drover.occurrence (job_id) where kind = 'triggered';

-- Named lists of days, such as bank holidays.
create table drover.calendar (
  name text collate "C" primary key,
  description text,
  dates date[] not null,
  updated_at timestamptz not null default now()
);

-- Which schedule made the job, and for which nominal time: {"schedule", "nominalAt"}; null for other jobs.
alter table drover.job add column occurrence json;
alter table drover.job_history add column occurrence json;

-- As in 0002, with the occurrence.
create or replace function drover.insert_jobs(batch json, expected int, history_from timestamptz) returns uuid[]
language plpgsql
set search_path = drover, pg_temp
-- the plan must not depend on how full the tables were when it was made
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- planning anew for each call, over all partitions, would cost more than the insert (0.65 against 0.1 ms)
set plan_cache_mode = force_generic_plan
as $$
declare
  added uuid[];
  finished uuid[];
begin
  with incoming as (
    select *
    from json_to_recordset(batch) as b(
      id uuid, type text, queue text, priority smallint, max_attempts int, timeout_ms bigint, retention_ms bigint,
      delay_ms double precision, run_at timestamptz, expires_at timestamptz, tags text[], backoff json, payload text,
      parent_id uuid, session_id uuid, hold_if_lost boolean, occurrence json
    )
  ), inserted as (
    insert into drover.job (
      id, parent_id, session_id, run_at, started_at, expires_at, timeout_ms, retention_ms,
      fence, attempt, max_attempts, priority, hold_if_lost, state, queue, type, tags, backoff, payload,
      occurrence
    )
    select
      b.id, b.parent_id, b.session_id, due.at, case when b.session_id is not null then now() end, b.expires_at,
      b.timeout_ms, b.retention_ms,
      case when b.session_id is null then 0 else 1 end, case when b.session_id is null then 0 else 1 end,
      coalesce(b.max_attempts, 10), coalesce(b.priority, 0), coalesce(b.hold_if_lost, false),
      case
        when b.session_id is not null then 'running'
        when due.at > now() then 'scheduled'
        else 'ready'
      end::drover.job_state,
      coalesce(b.queue, 'default'), b.type, b.tags, b.backoff, b.payload::json,
      b.occurrence
    from incoming b,
      lateral (
        select case
          when b.run_at is not null then b.run_at
          when b.delay_ms is not null then now() + b.delay_ms * interval '1 millisecond'
          else now()
        end as at
      ) due
    on conflict (id) do nothing
    returning id, queue, type
  ), new_lanes as (
    insert into drover.lane (queue, type)
    select used.queue, used.type
    from (select distinct queue, type from inserted) used
    where not exists (select from drover.lane l where l.type = used.type and l.queue = used.queue)
  )
  select coalesce(array_agg(id), '{}') into added from inserted;

  select array_agg(h.id) into finished
  from unnest(added) a(id)
  join drover.job_history h on h.id = a.id
  -- the upper bound keeps the empty partitions of days to come out of it
  where h.finished_at >= history_from and h.finished_at < now() + interval '1 day';

  if finished is not null then
    delete from drover.job where id = any(finished);
    added := array(select unnest(added) except select unnest(finished));
  end if;

  if cardinality(added) = expected then
    return null;
  end if;
  return array(
    select distinct b.id from json_to_recordset(batch) as b(id uuid) where b.id <> all(added)
  );
end $$;
