-- Schedules, and the decision on each of their occurrences.
--
-- Invariants:
-- - all nominal times of a schedule up to handled_until are decided and in drover.occurrence (until its retention ends), those
--   after it are not: one statement writes both, and the jobs;
-- - revision grows with every change of a row, so a plan that was computed from an older row changes nothing;
-- - a schedule has a next time unless it is paused or has ended (constraint schedule_moves_on), so none is forgotten.

create table drover.schedule (
  -- the ledger refers to the id, not to the name: a schedule that is deleted and created again is another one
  id bigint generated always as identity primary key,
  name text collate "C" not null unique,
  group_name text collate "C",
  definition json not null,
  -- the job of each occurrence: {"type", "queue", "payload" (JSON text), "options" (see drover.insert_jobs)}
  job json not null,
  -- the names of the calendars it excludes; null if none
  calendars text[],
  version int not null default 1,
  revision bigint not null default 0,
  -- the nominal time of the next occurrence, and when it is due by spread and jitter
  next_at timestamptz,
  due_at timestamptz,
  -- The release of the time zone rules (2025b …) by which next_at was found; null if unknown. The rules come with Node, so
  -- servers of a rolling upgrade may differ: see schedules/follow-rules.
  zone_rules text collate "C",
  -- offset of local time from UTC at next_at by these rules
  next_offset_ms int,
  -- a server with older rules replaced a next time that was found by newer ones
  rules_outdated boolean not null default false,
  handled_until timestamptz not null,
  -- the nominal time of an occurrence that waits for the previous job
  waiting_at timestamptz,
  last_job_id uuid,
  last_fired_at timestamptz,
  fired bigint not null default 0,
  skipped bigint not null default 0,
  pause_after_failures int,
  -- pause_after_failures counts failures after this time
  resumed_at timestamptz not null default '-infinity',
  ended boolean not null default false,
  paused_at timestamptz,
  paused_by text,
  pause_note text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint schedule_has_both_times check ((next_at is null) = (due_at is null)),
  constraint schedule_moves_on check ((next_at is not null) = (paused_at is null and not ended))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- Due schedules are the start of this index, so idle schedules cost nothing.
create index schedule_due on drover.schedule (due_at) where due_at is not null;
create index schedule_group on drover.schedule (group_name, name) where group_name is not null;
create index schedule_calendars on drover.schedule using gin (calendars) where calendars is not null;
-- These are usually empty.
create index schedule_waiting on drover.schedule (id) where waiting_at is not null;
create index schedule_rules_outdated on drover.schedule (zone_rules, id) where rules_outdated;

-- The ledger: one row for each decided occurrence, or for a run of occurrences that were skipped in a row for the same reason. An
-- every-second schedule that no server could fire for a day is a few rows instead of 86,400.
--
-- The nominal_at of a run is that of its first occurrence plus a microsecond. Nominal times have no microseconds, so a backfill can
-- still write a row for each occurrence of the run. The run itself stays as it was written.
create table drover.occurrence (
  schedule_id bigint not null,
  nominal_at timestamptz not null,
  due_at timestamptz not null,
  decided_at timestamptz not null default now(),
  job_id uuid,
  kind text not null check (kind in ('scheduled', 'triggered', 'backfilled')),
  state text not null check (state in ('fired', 'waiting', 'skipped')),
  reason text,
  -- the nominal time of the last occurrence of a run; null: not a run
  last_at timestamptz,
  occurrences int not null default 1,
  primary key (schedule_id, nominal_at),
  constraint occurrence_has_a_job check ((state = 'fired') = (job_id is not null)),
  constraint occurrence_has_a_reason check ((state = 'skipped') = (reason is not null)),
  constraint occurrence_run_was_skipped
    check (case when last_at is null then occurrences = 1 else occurrences > 1 and state = 'skipped' end)
);
-- for retention: rows are inserted in the order of this column, so a range of blocks is a range of time
create index occurrence_decided on drover.occurrence using brin (decided_at);
create index occurrence_triggered on drover.occurrence (job_id) where kind = 'triggered';
create index occurrence_run on drover.occurrence (schedule_id, nominal_at) where last_at is not null;

-- Named lists of days, such as bank holidays.
create table drover.calendar (
  name text collate "C" primary key,
  description text,
  dates date[] not null,
  updated_at timestamptz not null default now()
);
