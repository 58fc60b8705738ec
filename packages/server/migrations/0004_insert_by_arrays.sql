-- compatible-with: 3
--
-- The hot path of adding jobs, for half the CPU: a batch comes as one array a column (reading rows of JSON
-- was a third of an insert), and jobs that are surely new are inserted without a look for their copies
-- first (which costs a second descent of the key's index and a second WAL record a job).

-- The rows of a batch. `options` is null for a job that brings none; a missing array is one of nulls. The payloads are
-- a JSON array, of which each element is kept as it was written.
create function drover.new_job_rows(
  ids uuid[], types text[], queues text[], payloads json, sessions uuid[], options json[]
) returns table (
  id uuid, parent_id uuid, session_id uuid, run_at timestamptz, started_at timestamptz, expires_at timestamptz,
  timeout_ms bigint, retention_ms bigint, fence int, attempt int, max_attempts int, priority smallint,
  hold_if_lost boolean, state drover.job_state, queue text, type text, tags text[], backoff json, payload json,
  occurrence json
)
-- plain enough for PostgreSQL to put it into the insert that uses it
language sql stable as $$
  select
    b.id, (b.options->>'parent_id')::uuid, b.session_id, due.at, case when b.session_id is not null then now() end,
    (b.options->>'expires_at')::timestamptz,
    (b.options->>'timeout_ms')::bigint, (b.options->>'retention_ms')::bigint,
    case when b.session_id is null then 0 else 1 end, case when b.session_id is null then 0 else 1 end,
    coalesce((b.options->>'max_attempts')::int, 10), coalesce((b.options->>'priority')::smallint, 0::smallint),
    coalesce((b.options->>'hold_if_lost')::boolean, false),
    case
      when b.session_id is not null then 'running'
      when due.at > now() then 'scheduled'
      else 'ready'
    end::drover.job_state,
    coalesce(b.queue, 'default'), b.type,
    case when b.options->>'tags' is not null then
      array(select json_array_elements_text(b.options->'tags'))
    end,
    case when b.options->>'backoff' is not null then b.options->'backoff' end,
    b.payload,
    case when b.options->>'occurrence' is not null then b.options->'occurrence' end
  from rows from (
      unnest(ids), unnest(types), unnest(queues), json_array_elements(payloads), unnest(sessions), unnest(options)
    ) as b(id, type, queue, payload, session_id, options),
    lateral (
      select case
        when b.options is null then now()
        when b.options->>'run_at' is not null then (b.options->>'run_at')::timestamptz
        when b.options->>'delay_ms' is not null then
          now() + (b.options->>'delay_ms')::double precision * interval '1 millisecond'
        else now()
      end as at
    ) due
$$;

-- Inserts the jobs that do not exist yet and returns the ids of those that do; null if all were added.
-- With `are_new`, a job that exists is an error instead (unique_violation), and nothing is added.
--
-- A row with a session is given to that worker at once (state running, first grant).
--
-- The history is looked at *after* the insert, in a statement of its own: see decision 0004. `history_from`
-- bounds the search: no job can have finished before it was made.
--
-- Its callers set what plans depend on (see drover.insert_jobs below); setting it here would cost each call.
create function drover.insert_jobs(
  ids uuid[], types text[], queues text[], payloads json, sessions uuid[], options json[],
  history_from timestamptz, are_new boolean
) returns uuid[]
language plpgsql as $$
declare
  added uuid[] := ids;
  finished uuid[];
begin
  if are_new then
    insert into drover.job (
      id, parent_id, session_id, run_at, started_at, expires_at, timeout_ms, retention_ms,
      fence, attempt, max_attempts, priority, hold_if_lost, state, queue, type, tags, backoff, payload, occurrence
    )
    select * from drover.new_job_rows(ids, types, queues, payloads, sessions, options);
  else
    with inserted as (
      insert into drover.job as j (
        id, parent_id, session_id, run_at, started_at, expires_at, timeout_ms, retention_ms,
        fence, attempt, max_attempts, priority, hold_if_lost, state, queue, type, tags, backoff, payload, occurrence
      )
      select * from drover.new_job_rows(ids, types, queues, payloads, sessions, options)
      on conflict (id) do nothing
      returning j.id
    )
    select coalesce(array_agg(id), '{}') into added from inserted;
  end if;

  insert into drover.lane (queue, type)
  select used.queue, used.type
  from (
    select distinct coalesce(given.queue, 'default') as queue, given.type
    from unnest(queues, types) as given(queue, type)
  ) used
  where not exists (select from drover.lane l where l.type = used.type and l.queue = used.queue);

  select array_agg(h.id) into finished
  from unnest(added) a(id)
  join drover.job_history h on h.id = a.id
  -- the upper bound keeps the empty partitions of days to come out of it
  where h.finished_at >= history_from and h.finished_at < now() + interval '1 day';

  if finished is not null then
    delete from drover.job where id = any(finished);
    added := array(select unnest(added) except select unnest(finished));
  end if;

  if cardinality(added) = cardinality(ids) then
    return null;
  end if;
  return array(select distinct given from unnest(ids) given where given <> all(added));
end $$;

-- The same for a batch of JSON: what handlers, schedules and SQL add. `expected` is not needed any more; servers
-- that know only the levels before this one give it.
create or replace function drover.insert_jobs(batch json, expected int, history_from timestamptz) returns uuid[]
language plpgsql
set search_path = drover, pg_temp
-- the plans must not depend on how full the tables were when they were made
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- planning anew for each call, over all partitions, would cost more than the insert (0.65 against 0.1 ms)
set plan_cache_mode = force_generic_plan
as $$
declare
  b record;
begin
  select array_agg(job.id) as ids, array_agg(job.type) as types, array_agg(job.queue) as queues,
    -- a payload comes as text, so that its \u0000 survives the reading of the batch
    ('[' || string_agg(coalesce(job.payload, 'null'), ',') || ']')::json as payloads, array_agg(job.session_id) as sessions, array_agg(
      json_build_object(
        'parent_id', job.parent_id, 'priority', job.priority, 'max_attempts', job.max_attempts,
        'timeout_ms', job.timeout_ms, 'retention_ms', job.retention_ms, 'delay_ms', job.delay_ms,
        'run_at', job.run_at, 'expires_at', job.expires_at, 'tags', job.tags, 'backoff', job.backoff,
        'hold_if_lost', job.hold_if_lost, 'occurrence', job.occurrence
      )
    ) as options
  into b
  from json_to_recordset(batch) as job(
    id uuid, type text, queue text, priority smallint, max_attempts int, timeout_ms bigint, retention_ms bigint,
    delay_ms double precision, run_at timestamptz, expires_at timestamptz, tags json, backoff json, payload text,
    parent_id uuid, session_id uuid, hold_if_lost boolean, occurrence json
  );
  return drover.insert_jobs(b.ids, b.types, b.queues, b.payloads, b.sessions, b.options, history_from, false);
end $$;
