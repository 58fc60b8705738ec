-- compatible-with: 3
--
-- Adding jobs, as in migration 0004, with one change: ids are looked up in the history by "between" instead of "=". An
-- equality PostgreSQL may also read the other way round, and go through all of the history with the batch in hand, when its
-- statistics say that there is none.

-- Inserts the jobs that do not exist yet and returns the ids of those that do; null if all were added.
-- With `are_new`, a job that exists is an error instead (unique_violation), and nothing is added.
--
-- A row with a session is given to that worker at once (state running, first grant).
--
-- The history is looked at *after* the insert, in a statement of its own: see decision 0004. `history_from`
-- bounds the search: no job can have finished before it was made.
--
-- Its callers set what plans depend on (see migration 0004); setting it here would cost each call.
create or replace function drover.insert_jobs(
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
  join drover.job_history h on h.id between a.id and a.id
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
