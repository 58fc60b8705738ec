-- Unfinished jobs.
--
-- Invariants:
-- - a job is one row: in drover.job while it is unfinished, in drover.job_history afterwards;
-- - fence grows with every grant of a job to a worker and never shrinks, so a stale grant can be told from the present one;
--   attempt is what people see and count;
-- - a lane row exists for every (queue, type) that a job row has.

-- Where a job with an idempotency key is in lists, which are in the order of ids: where a UUIDv7 of its creation would be. The
-- index of these places has no entry for other jobs. "epoch" does not depend on the time zone, so this is immutable.
create function drover.list_place(id uuid, created_at timestamptz) returns uuid
language sql immutable parallel safe as $$
  select (
    lpad(to_hex(greatest(0, least(281474976710655, floor(extract(epoch from created_at) * 1000)))::bigint), 12, '0')
    || '7' || substr(replace(id::text, '-', ''), 14)
  )::uuid
$$;

create type drover.job_state as enum (
  'blocked', 'scheduled', 'ready', 'running', 'unknown', 'succeeded', 'failed', 'cancelled'
);

-- FIFO: a job gets the next number when it becomes ready.
create sequence drover.job_order;

-- Columns that indexes name come first, because a claim compares all of these in the old and the new version of the row, and
-- PostgreSQL reaches a column behind a null or a variable length only by walking over everything before it (decision 0021).
create table drover.job (
  id uuid not null,
  order_key bigint not null default nextval('drover.job_order'),
  run_at timestamptz not null default now(),
  state drover.job_state not null default 'ready',
  priority smallint not null default 0,
  queue text collate "C" not null,
  type text collate "C" not null,
  -- the worker's session that holds it; null unless running or unknown
  session_id uuid,
  cancel_requested_at timestamptz,
  expires_at timestamptz,
  -- the job that added this one
  parent_id uuid,
  -- the schedule that added it, from its options
  schedule text collate "C",
  -- the step of a run that it is, and the item of a map; see drover.run
  run_id uuid,
  node int,
  item int,
  created_at timestamptz not null default now(),
  fence int not null default 0,
  attempt int not null default 0,
  max_attempts int not null default drover.job_limit('defaultMaxAttempts'),
  lost_attempts int not null default 0,
  -- when its worker is lost, the job becomes unknown instead of running again
  hold_if_lost boolean not null default false,
  -- it was started by the process of an earlier session, which died; see sessions
  inherited boolean not null default false,
  -- json, not jsonb: the text is kept as it was sent (jsonb cannot hold \u0000), and it costs less to write
  payload json not null,
  started_at timestamptz,
  tags text[],
  -- The options as they were given, null if there were none: see drover.insert_jobs. A column with the same meaning counts.
  options json,
  progress json,
  -- the attempts that did not succeed, oldest first, as the API shows them
  attempts json[],
  -- Half-empty leaves: a claim adds an entry for the new version of each row next to the old one.
  constraint job_pkey primary key (id) with (fillfactor = 45),
  -- One check, because PostgreSQL prepares each of them for every statement.
  constraint job_is_sound check (
    state in ('blocked', 'scheduled', 'ready', 'running', 'unknown')
    and (state in ('running', 'unknown')) = (session_id is not null)
  )
)
-- Half-empty pages: a claim and the version it leaves behind stay on one page (0.15 against 0.21 s of CPU and 710 against
-- 1144 bytes of WAL per claim and finish). Vacuum early and often: dead entries at the head of the ready index are what makes a
-- queue on PostgreSQL slow. No truncation: it takes an exclusive lock, and the pages are needed again at once.
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
-- What a session holds and which of it should stop, and jobs that came back from a worker while a cancel was under way, which
-- have no session.
create index job_holder on drover.job (session_id, cancel_requested_at)
  where session_id is not null or cancel_requested_at is not null;
-- What waits for its time, and what waits for something else.
create index job_waiting on drover.job (state, run_at) where state in ('blocked', 'scheduled');
create index job_run on drover.job (run_id) where run_id is not null;
create index job_expiry on drover.job (expires_at) where expires_at is not null;
create index job_keyed on drover.job (drover.list_place(id, created_at)) where id >= 'ff000000-0000-0000-0000-000000000000';
-- For lists.
create index job_parent on drover.job (parent_id, id) where parent_id is not null;
create index job_schedule on drover.job (schedule, id) where schedule is not null;

-- Which pairs of queue and type are used: where a worker that takes every queue must look for jobs. Those that are not used any
-- more are deleted when there are many (drover.prune_lanes). No unique key, on purpose: with one, two long transactions that each use a new pair would wait for each other. A pair may occur
-- twice; readers use distinct.
create table drover.lane (
  queue text collate "C" not null,
  type text collate "C" not null
);
create index lane_by_type on drover.lane (type, queue);
