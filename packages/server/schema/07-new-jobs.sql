-- How jobs are created: by drover.insert_jobs, or by COPY followed by drover.finish_copy for large plain batches.
-- API, SDK, children, schedules, triggers and the public SQL functions all end here (docs/internals/enqueue.md).

-- The timestamp in a UUIDv7; -infinity for any other UUID.
create function drover.id_time(id uuid) returns timestamptz
language sql immutable as $$
  select case
    when substr(id::text, 15, 1) = '7' then
      to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
    else '-infinity'::timestamptz
  end
$$;

-- A new UUIDv7, for callers without an id.
create function drover.new_id() returns uuid
language sql volatile as $$
  select (
    substr(t, 1, 8) || '-' || substr(t, 9, 4) || '-7' || substr(r, 1, 3) || '-'
    || substr('89ab', 1 + get_byte(decode(substr(r, 4, 2), 'hex'), 0) % 4, 1) || substr(r, 6, 3) || '-' || substr(r, 9, 12)
  )::uuid
  from (
    select lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') as t,
      replace(gen_random_uuid()::text, '-', '') as r
  ) parts
$$;

-- The id of the job with this idempotency key, as the API and the SDK make it (idOfKey in packages/protocol/src/uuid.ts).
create function drover.id_of_key(type text, key text) returns uuid
language sql immutable strict as $$
  select (
    'ff' || substr(t, 3, 6) || '-' || substr(t, 9, 4) || '-8' || substr(t, 14, 3) || '-'
    || substr('89ab', 1 + (get_byte(hash, 8) >> 4) % 4, 1) || substr(t, 18, 3) || '-' || substr(t, 21, 12)
  )::uuid
  from (
    select hash, encode(hash, 'hex') as t
    from sha256(convert_to(type, 'UTF8') || '\x00'::bytea || convert_to(key, 'UTF8')) hash
  ) digits
$$;

-- Inserts the jobs that do not exist yet and returns the ids of those that do; null if all were added. One array per column;
-- a missing array is one of nulls.
--
-- - payloads: JSON texts.
-- - sessions: a row with a session is granted to that worker at once (state running, first fence).
-- - options: what the API calls a job's options, with durations in milliseconds, and `parentId` of a child, `expiresIn` and
--   `occurrence` ({"schedule", "nominalAt"}) of a schedule's job; null for a job that brings none. They are stored as they
--   are. Those that SQL reads later have a column too.
-- - history_from: no job with one of these ids can have finished before; it bounds the lookup.
--
-- A job that has finished is still the same job, so the history is searched too, and after the insert, in a statement of its
-- own: if the first copy is just finishing, the insert waits for that commit and then finds no row to conflict with; only a
-- snapshot taken later shows the row in the history (decision 0004).
--
-- Callers set what plans depend on (see drover.insert_job_rows); setting it here would cost each call.
create function drover.insert_jobs(
  ids uuid[], types text[], queues text[], payloads text[], sessions uuid[], options json[], history_from timestamptz
) returns uuid[]
language plpgsql as $$
declare
  added uuid[];
  finished uuid[];
begin
  with inserted as (
    insert into drover.job as j (
      id, session_id, state, started_at, fence, attempt, queue, type, payload,
      run_at, expires_at, priority, max_attempts, hold_if_lost, tags, parent_id, schedule, run_id, node, item, options
    )
    select
      b.id, b.session_id,
      case when b.session_id is not null then 'running' when due.at > now() then 'scheduled' else 'ready' end::drover.job_state,
      case when b.session_id is not null then now() end,
      (b.session_id is not null)::int, (b.session_id is not null)::int,
      coalesce(b.queue, 'default'), b.type, b.payload::json,
      due.at, coalesce(o."expiresAt", now() + o."expiresIn" * interval '1 millisecond'),
      coalesce(o.priority, 0), coalesce(o."maxAttempts", drover.job_limit('defaultMaxAttempts')),
      coalesce(o."onLost" = 'hold', false), nullif(o.tags, '{}'), o."parentId", o.occurrence ->> 'schedule', o."runId", o.node,
      o.item, b.options
    from rows from (
        unnest(ids), unnest(types), unnest(queues), unnest(payloads), unnest(sessions), unnest(options)
      ) as b(id, type, queue, payload, session_id, options)
      -- the options that have a column are read once; a job without any costs nothing here
      left join lateral json_to_record(b.options) as o(
        priority smallint, "maxAttempts" int, tags text[], "onLost" text, delay double precision, "runAt" timestamptz,
        "expiresAt" timestamptz, "expiresIn" double precision, "parentId" uuid, occurrence json, "runId" uuid, node int, item int
      ) on b.options is not null
      cross join lateral (
        select coalesce(o."runAt", now() + o.delay * interval '1 millisecond', now()) as at
      ) due
    on conflict (id) do nothing
    returning j.id
  )
  select coalesce(array_agg(id), '{}') into added from inserted;

  insert into drover.lane (queue, type)
  select used.queue, used.type
  from (
    select distinct coalesce(given.queue, 'default') as queue, given.type
    from unnest(queues, types) as given(queue, type)
  ) used
  where not exists (select from drover.lane l where l.type = used.type and l.queue = used.queue);

  select array_agg(h.id) into finished
  from unnest(added) a(id)
  -- "between": PostgreSQL may read an equality the other way round and go through all of the history (see db/by-key)
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
  return array(select unnest(ids) except select unnest(added));
end $$;

-- The same for a JSON array of objects with id, type, queue, payload (JSON text), options and complete: for children, triggers
-- and the public functions, which create their jobs in SQL. A job that is not complete was added by the name of its type, and
-- gets the defaults of that type.
create function drover.insert_job_rows(batch json) returns uuid[]
language plpgsql
set search_path = drover, pg_temp
-- the plans must not depend on how full the tables were when they were made
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- planning again for each call, over all partitions, would cost more than the insert (0.65 against 0.1 ms)
set plan_cache_mode = force_generic_plan
as $$
declare
  b record;
begin
  select array_agg(job.id) as ids, array_agg(job.type) as types, array_agg(coalesce(job.queue, t.defaults->>'queue')) as queues,
    array_agg(job.payload) as payloads,
    array_agg(case
      when t.type is null then job.options
      else nullif((t.defaults - 'queue') || coalesce(job.options::jsonb, '{}'), '{}')::json
    end) as options,
    min(drover.id_time(job.id)) - interval '1 day' as history_from
  into b
  -- the payload is text, so that its \u0000 survives the reading of the batch
  from json_to_recordset(batch) as job(id uuid, type text, queue text, payload text, options json, complete boolean)
  -- a lookup of null ends at once
  left join drover.job_type t on t.type = case when job.complete is not true then job.type end;
  return drover.insert_jobs(b.ids, b.types, b.queues, b.payloads, null, b.options, b.history_from);
end $$;

-- The second half of an insert by COPY, in the same transaction and in a statement of its own, for the reason given above. A job
-- that is in the history too is a copy of one that has finished: that is an error (unique_violation), and nothing is added. The
-- ids of a batch lie close together, so one lookup of their range is enough.
create function drover.finish_copy(
  lowest uuid, highest uuid, history_from timestamptz, queues text[], types text[]
) returns void
language plpgsql as $$
begin
  insert into drover.lane (queue, type)
  select used.queue, used.type
  from unnest(queues, types) as used(queue, type)
  where not exists (select from drover.lane l where l.type = used.type and l.queue = used.queue);

  perform
  from drover.job_history h
  where h.id between lowest and highest
    and h.finished_at >= history_from and h.finished_at < now() + interval '1 day'
    -- "offset" forces an index lookup for each of the few rows found, independent of the planner's estimates
    and exists (select from drover.job j where j.id = h.id offset 0);
  if found then
    raise unique_violation using message = 'a job of this batch has finished before';
  end if;
end $$;

-- Deletes the lanes that no job uses, if there are more than `keep`: a claim probes each lane of its types. A lane stays as long
-- as the rollup counts jobs of it, because people look for its queue, and while it is paused. Returns how many were deleted.
--
-- The lock waits for the transactions that are adding jobs, and makes others wait before they read which lanes there are. So
-- that it is short, the search comes before it, nothing is deleted if it takes longer than 100 ms to get, and a table of many
-- jobs is not read under it. A caller in `repeatable read` may still see a lane that has gone; the reconciler adds it again.
create function drover.prune_lanes(keep int) returns int
language plpgsql
set lock_timeout = '100ms'
set enable_nestloop = off
as $$
declare
  idle tid[];
  pruned int;
begin
  if (select count(*) from drover.lane) <= keep
    or (select reltuples from pg_class where oid = 'drover.job'::regclass) > 200000
  then
    return 0;
  end if;
  idle := array(
    select l.ctid
    from drover.lane l
    where not exists (select from drover.job j where j.queue = l.queue and j.type = l.type)
      and not exists (select from drover.rollup r where r.queue = l.queue and r.type = l.type)
      and not exists (select from drover.pause p where p.scope = 'queue' and p.name = l.queue)
    limit 10000
  );
  lock table drover.lane in share row exclusive mode;
  delete from drover.lane l
  where l.ctid = any(idle)
    and not exists (select from drover.job j where j.queue = l.queue and j.type = l.type);
  get diagnostics pruned = row_count;
  return pruned;
exception when lock_not_available then
  -- the next round tries again
  return 0;
end $$;
