-- Attempts: the list in a job's row, and the counts per minute.

-- A timestamp as the API shows it.
create function drover.iso(at timestamptz) returns text
language sql immutable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Appends an attempt to a job's list. Beyond 50 attempts, the first ten and the latest are kept.
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

-- Totals per minute, written by the statement that makes the change. One row per server and lane, so that servers
-- never wait for each other here.
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
