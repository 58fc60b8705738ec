-- compatible-with: 3
--
-- The table of unfinished jobs anew, with the same columns in another order (decision 0021): what the indexes name stands first,
-- and of that what is never null and always as long. A claim looks at all of these in the row as it was and as it will be, and
-- PostgreSQL comes to a column behind one that is null, or that varies in length, only by walking over all before it.
--
-- The leaves of the primary key are left half empty, as the pages of the table are: a claim adds an entry for the new version of
-- each row beside the old one, and found every page full.
--
-- Together 9 % fewer instructions of PostgreSQL for the claim and the end of a job. Whoever adds, claims or ends jobs waits while the
-- unfinished ones are copied, eight seconds for a million on a machine of two cores; the history stays as it is.

-- The view first: who reads it has locked it before the table.
alter view drover.jobs reset (security_barrier);
lock table drover.job in access exclusive mode;
alter table drover.job rename to job_before;
drop index drover.job_expiry, drover.job_holder, drover.job_ready, drover.job_waiting;
alter table drover.job_before drop constraint job_pkey;

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
  created_at timestamptz not null default now(),
  fence int not null default 0,
  attempt int not null default 0,
  max_attempts int not null default 10,
  lost_attempts int not null default 0,
  -- what a lost worker leaves is not run again by itself, but becomes unknown
  hold_if_lost boolean not null default false,
  inherited boolean not null default false,
  -- json, not jsonb: the text is kept as it came (a jsonb cannot hold \u0000), and it is cheaper to write
  payload json not null,
  started_at timestamptz,
  parent_id uuid,
  timeout_ms bigint,
  retention_ms bigint,
  tags text[],
  backoff json,
  progress json,
  -- the attempts that did not succeed, oldest first, as the API shows them
  attempts json[],
  occurrence json
)
-- see migration 0001
with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 1,
  vacuum_truncate = false
);

insert into drover.job (
  id, order_key, run_at, state, priority, queue, type, session_id, cancel_requested_at, expires_at, created_at, fence, attempt,
  max_attempts, lost_attempts, hold_if_lost, inherited, payload, started_at, parent_id, timeout_ms, retention_ms, tags, backoff,
  progress, attempts, occurrence
)
select
  id, order_key, run_at, state, priority, queue, type, session_id, cancel_requested_at, expires_at, created_at, fence, attempt,
  max_attempts, lost_attempts, hold_if_lost, inherited, payload, started_at, parent_id, timeout_ms, retention_ms, tags, backoff,
  progress, attempts, occurrence
from drover.job_before;
-- As it was, of the new table. Replaced, not made anew, which would take away what others were granted on it.
create or replace view drover.jobs as
select id, type, queue, state, priority, attempt, max_attempts, tags, payload, null::json as result, null::json as error,
  progress, parent_id, session_id, created_at, run_at, started_at, null::timestamptz as finished_at, expires_at
from drover.job
union all
select id, type, queue, state, priority, attempt, max_attempts, tags, payload, result, error,
  progress, parent_id, session_id, created_at, run_at, started_at, finished_at, expires_at
from drover.job_history;
drop table drover.job_before;

alter table drover.job
  add constraint job_pkey primary key (id) with (fillfactor = 45),
  add constraint job_is_sound check (state <= 'unknown' and (state >= 'running') = (session_id is not null));

-- The claim reads one range of this per lane, from its start.
create index job_ready on drover.job (queue, type, priority desc, order_key) where state = 'ready';
-- See migration 0016.
create index job_holder on drover.job (session_id, cancel_requested_at)
  where session_id is not null or cancel_requested_at is not null;
create index job_waiting on drover.job (state, run_at) where state <= 'scheduled';
create index job_expiry on drover.job (expires_at) where expires_at is not null;
analyze drover.job;
