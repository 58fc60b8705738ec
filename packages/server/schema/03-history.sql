-- Finished jobs, one partition per day of finishing: old jobs do not slow down the present, and retention drops
-- partitions. This table has the indexes that search needs; each is paid for once, when the job finishes.
create table drover.job_history (
  id uuid not null,
  parent_id uuid,
  run_id uuid,
  node int,
  item int,
  session_id uuid,
  created_at timestamptz not null,
  run_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz not null,
  expires_at timestamptz,
  cancel_requested_at timestamptz,
  -- set when the job brings its own retention
  keep_until timestamptz,
  fence int not null,
  attempt int not null,
  max_attempts int not null,
  lost_attempts int not null,
  priority smallint not null,
  hold_if_lost boolean not null default false,
  state drover.job_state not null,
  queue text collate "C" not null,
  type text collate "C" not null,
  schedule text collate "C",
  tags text[],
  options json,
  payload json not null,
  progress json,
  attempts json[],
  result json,
  error json,
  constraint job_is_finished check (state in ('succeeded', 'failed', 'cancelled'))
) partition by range (finished_at);

create index job_history_id on drover.job_history (id);
create index job_history_run on drover.job_history (run_id, node, item) where run_id is not null;
create index job_history_queue on drover.job_history (queue, id);
create index job_history_type on drover.job_history (type, id);
create index job_history_not_succeeded on drover.job_history (state, id) where state <> 'succeeded';
create index job_history_tags on drover.job_history using gin (tags) where tags is not null;
create index job_history_parent on drover.job_history (parent_id, id) where parent_id is not null;
create index job_history_schedule on drover.job_history (schedule, id) where schedule is not null;
create index job_history_keyed on drover.job_history (drover.list_place(id, created_at))
  where id >= 'ff000000-0000-0000-0000-000000000000';
create index job_history_own_retention on drover.job_history (keep_until) where keep_until is not null;

-- Takes rows of days without a partition, so that a missing partition never fails a finish.
create table drover.job_history_other partition of drover.job_history default;

-- Makes the partitions of the days from yesterday to `days_ahead` days from now. `attach` locks far less than
-- `create … partition of`.
create function drover.ensure_history_partitions(days_ahead int) returns int
language plpgsql as $$
declare
  day date;
  name text;
  made int := 0;
begin
  -- one server at a time; the lock ends with the transaction
  perform pg_advisory_xact_lock(hashtext('drover.ensure_history_partitions'));
  for day in
    select d::date from generate_series((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date + days_ahead, '1 day') d
  loop
    name := 'job_history_' || to_char(day, 'YYYYMMDD');
    continue when to_regclass('drover.' || name) is not null;
    begin
      execute format('create table drover.%I (like drover.job_history including all)', name);
      execute format(
        'alter table drover.job_history attach partition drover.%I for values from (%L) to (%L)',
        name, day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00'
      );
      made := made + 1;
    exception
      -- job_history_other already has rows of that day, which then stay there
      when check_violation then null;
    end;
  end loop;
  return made;
end $$;

select drover.ensure_history_partitions(3);

-- For people: all jobs in one view. Programs use the HTTP API.
create view drover.jobs as
select id, type, queue, state, priority, attempt, max_attempts, tags, payload, null::json as result, null::json as error,
  progress, parent_id, schedule, session_id, created_at, run_at, started_at, null::timestamptz as finished_at, expires_at
from drover.job
union all
select id, type, queue, state, priority, attempt, max_attempts, tags, payload, result, error,
  progress, parent_id, schedule, session_id, created_at, run_at, started_at, finished_at, expires_at
from drover.job_history;
