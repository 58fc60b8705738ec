-- compatible-with: 1
--
-- The tables of the job engine. Everything but the functions at the end (drover.enqueue,
-- drover.enqueue_many) is private: other programs use the HTTP API.
--
-- What always holds:
-- - a job is one row, in drover.job while it is unfinished and in drover.job_history afterwards;
-- - fence grows with every grant of a job to a worker and never goes back, so that whoever holds an
--   older grant can be told from the present holder; attempt is what people see and count;
-- - a lane row exists for every (queue, type) that a job row has.

create type drover.job_state as enum (
  'blocked', 'scheduled', 'ready', 'running', 'unknown', 'succeeded', 'failed', 'cancelled'
);

-- FIFO: a job gets the next number when it becomes ready.
create sequence drover.job_order;

create table drover.job (
  id uuid primary key,
  parent_id uuid,
  -- the worker's session that holds it; null unless running or unknown
  session_id uuid,
  created_at timestamptz not null default now(),
  run_at timestamptz not null,
  started_at timestamptz,
  expires_at timestamptz,
  cancel_requested_at timestamptz,
  order_key bigint not null default nextval('drover.job_order'),
  timeout_ms bigint,
  retention_ms bigint,
  fence int not null default 0,
  attempt int not null default 0,
  max_attempts int not null,
  lost_attempts int not null default 0,
  priority smallint not null default 0,
  -- what a lost worker leaves is not run again by itself, but becomes unknown
  hold_if_lost boolean not null default false,
  state drover.job_state not null,
  queue text collate "C" not null,
  type text collate "C" not null,
  tags text[],
  backoff json,
  -- json, not jsonb: the text is kept as it came (a jsonb cannot hold \u0000), and it is cheaper to write
  payload json not null,
  progress json,
  -- the attempts that did not succeed, oldest first, as the API shows them
  attempts json[],
  constraint job_is_unfinished check (state in ('blocked', 'scheduled', 'ready', 'running', 'unknown')),
  constraint job_has_a_holder check ((state in ('running', 'unknown')) = (session_id is not null)),
  constraint job_limits check (attempt >= 0 and fence >= attempt and max_attempts >= 1 and lost_attempts >= 0)
)
-- Half-empty pages: a claim and the version it leaves behind stay on one page (0.15 against 0.21 s of CPU
-- and 710 against 1144 bytes of WAL per claim and finish, measured). Vacuum early and often: dead entries
-- at the head of the ready index are what makes a queue on PostgreSQL slow. No truncation: it takes an
-- exclusive lock, and the pages are needed again at once.
with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 1,
  vacuum_truncate = false
);

-- The claim reads one range of this per lane, from its start.
create index job_ready on drover.job (queue, type, priority desc, order_key) where state = 'ready';
create index job_due on drover.job (run_at) where state = 'scheduled';
create index job_running on drover.job (session_id) where state = 'running';
create index job_expiry on drover.job (expires_at) where expires_at is not null;
-- for lists of what waits for something else; usually empty
create index job_held on drover.job (state, id) where state in ('blocked', 'unknown');
create index job_cancel_requested on drover.job (session_id) where cancel_requested_at is not null;

-- Which pairs of queue and type have ever been used: what a worker that takes every queue must look at.
-- No unique key, on purpose: with one, two long transactions that each use a new pair would wait for each
-- other. A pair may stand here twice; readers use distinct.
create table drover.lane (
  queue text collate "C" not null,
  type text collate "C" not null
);
create index lane_by_type on drover.lane (type, queue);

-- Finished jobs, one partition a day of finishing: the past never slows the present, and retention is the
-- drop of a partition. This table carries the indexes that search needs; each is paid once, at the finish.
create table drover.job_history (
  id uuid not null,
  parent_id uuid,
  session_id uuid,
  created_at timestamptz not null,
  run_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz not null,
  expires_at timestamptz,
  cancel_requested_at timestamptz,
  -- set when the job brings its own retention
  keep_until timestamptz,
  timeout_ms bigint,
  retention_ms bigint,
  fence int not null,
  attempt int not null,
  max_attempts int not null,
  lost_attempts int not null,
  priority smallint not null,
  hold_if_lost boolean not null default false,
  state drover.job_state not null,
  queue text collate "C" not null,
  type text collate "C" not null,
  tags text[],
  backoff json,
  payload json not null,
  progress json,
  attempts json[],
  result json,
  error json,
  constraint job_is_finished check (state in ('succeeded', 'failed', 'cancelled'))
) partition by range (finished_at);

create index job_history_id on drover.job_history (id);
create index job_history_queue on drover.job_history (queue, id);
create index job_history_type on drover.job_history (type, id);
create index job_history_not_succeeded on drover.job_history (state, id) where state <> 'succeeded';
create index job_history_tags on drover.job_history using gin (tags) where tags is not null;
create index job_history_own_retention on drover.job_history (keep_until) where keep_until is not null;

-- Takes whatever no day's partition takes, so that a finish never fails for want of one.
create table drover.job_history_other partition of drover.job_history default;

create table drover.server (
  id uuid primary key,
  address text not null,
  host text not null,
  pid int not null,
  version text not null,
  draining boolean not null default false,
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now()
);

-- A worker process from its start to its end. The lease is the session's: jobs belong to it.
create table drover.session (
  id uuid primary key,
  -- the server that serves it now; null when none does
  server_id uuid,
  name text not null,
  host text not null,
  pid int not null,
  sdk text not null,
  types text[] not null,
  queues text[],
  slots int not null,
  running int not null default 0,
  missed_beats int not null default 0,
  draining boolean not null default false,
  paused boolean not null default false,
  ignores_pause boolean not null default false,
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now(),
  expires_at timestamptz not null,
  ended_at timestamptz,
  -- 'resigned' or 'dead', set together with ended_at
  ending text,
  last_error text,
  constraint session_ends_once check ((ended_at is null) = (ending is null))
) with (fillfactor = 70);

create index session_live on drover.session (expires_at) where ended_at is null;

-- What happened in a minute, written by the statement that made it happen. One row a server, so that
-- servers never wait for each other here.
create table drover.rollup (
  minute timestamptz not null,
  server_id uuid not null,
  queue text collate "C" not null,
  type text collate "C" not null,
  succeeded int not null default 0,
  failed int not null default 0,
  cancelled int not null default 0,
  retried int not null default 0,
  wait_ms double precision not null default 0,
  run_ms double precision not null default 0,
  primary key (minute, server_id, queue, type)
) with (fillfactor = 50);

-- What is paused, by whom and why: the cluster, a queue or a type of jobs. (A worker is paused in its session.)
create table drover.pause (
  scope text not null check (scope in ('cluster', 'queue', 'type')),
  name text collate "C" not null,
  note text,
  paused_by text not null,
  paused_at timestamptz not null default now(),
  primary key (scope, name),
  constraint the_cluster_has_no_name check ((scope = 'cluster') = (name = ''))
);

-- The servers' common pulse, one row. If it stood still (the database or all servers were away, a clock
-- jumped, another server of the database took over), no worker could renew its lease meanwhile, and every
-- lease counts as renewed when it went on: see lifecycle/lose.
create table drover.beacon (
  id int primary key default 1 check (id = 1),
  at timestamptz not null default now(),
  timeline int not null default 0,
  gap_ended_at timestamptz not null default now()
);
insert into drover.beacon default values;

-- How often the reconciler had to mend something, by kind.
create table drover.repair (
  kind text primary key,
  count bigint not null default 0,
  last_at timestamptz not null default now()
);

-- Settings of the whole cluster that can be changed while it runs.
create table drover.setting (
  name text primary key,
  value json not null
);

-- For people: every job in one place. Programs use the HTTP API.
create view drover.jobs as
select id, type, queue, state, priority, attempt, max_attempts, tags, payload, null::json as result, null::json as error,
  progress, parent_id, session_id, created_at, run_at, started_at, null::timestamptz as finished_at, expires_at
from drover.job
union all
select id, type, queue, state, priority, attempt, max_attempts, tags, payload, result, error,
  progress, parent_id, session_id, created_at, run_at, started_at, finished_at, expires_at
from drover.job_history;

-- A moment as the API shows it.
create function drover.iso(moment timestamptz) returns text
language sql immutable as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- The attempts of a job with one more. Of more than 50 the first ten and the latest stay.
create function drover.add_attempt(
  attempts json[], attempt int, outcome text, started_at timestamptz, session_id uuid, error json
) returns json[]
language sql stable as $$
  select case
    when cardinality(attempts) >= 50 then attempts[1:10] || attempts[cardinality(attempts) - 38:]
    else coalesce(attempts, '{}')
  end || json_build_object(
    'attempt', attempt,
    'outcome', outcome,
    'startedAt', drover.iso(started_at),
    'finishedAt', drover.iso(now()),
    'worker', (select s.name from drover.session s where s.id = session_id),
    'error', error
  )
$$;

-- Makes the history partitions of the days from yesterday to `days_ahead` days from now. `attach` locks far
-- less than `create … partition of`.
create function drover.ensure_history_partitions(days_ahead int) returns int
language plpgsql as $$
declare
  day date;
  name text;
  made int := 0;
begin
  -- one server at a time; the lock goes with the transaction
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
