-- compatible-with: 1
--
-- Adding jobs. One function, drover.insert_jobs, is the only way a job comes into being; the server calls
-- it with what the API has checked, drover.enqueue and drover.enqueue_many check and call it inside the
-- caller's own transaction.

-- Inserts the jobs of `batch` that do not exist yet and returns the ids of those that do.
--
-- A repeated enqueue is the same job, also after it has finished, so the history is looked at too, and
-- *after* the insert, in a statement of its own: if the first copy is being finished at this moment, the
-- insert waits for that commit and then finds no row to conflict with; only a snapshot taken later shows
-- the row in the history. `history_from` bounds the search: no job can have finished before it was made.
--
-- A row with a session_id is given to that worker at once (state running, first grant).
create function drover.insert_jobs(batch json, expected int, history_from timestamptz) returns uuid[]
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
      parent_id uuid, session_id uuid, hold_if_lost boolean
    )
  ), inserted as (
    insert into drover.job (
      id, parent_id, session_id, run_at, started_at, expires_at, timeout_ms, retention_ms,
      fence, attempt, max_attempts, priority, hold_if_lost, state, queue, type, tags, backoff, payload
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
      coalesce(b.queue, 'default'), b.type, b.tags, b.backoff, b.payload::json
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

-- Milliseconds of '30s', '10m', '2h', '3d', '250ms' or a plain number of milliseconds.
create function drover.duration_ms(field text, value text) returns double precision
language plpgsql immutable as $$
declare
  parts text[] := regexp_match(value, '^(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)?$');
  ms double precision;
begin
  if parts is not null then
    ms := parts[1]::double precision * case parts[2]
      when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 when 'd' then 86400000 else 1 end;
  end if;
  if ms is null or ms > 315360000000 then
    raise exception 'drover: %: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got %', field, value
      using errcode = 'invalid_parameter_value';
  end if;
  return round(ms);
end $$;

-- A whole number in a range, or the error that names the field.
create function drover.checked_int(field text, value json, low int, high int) returns int
language plpgsql immutable as $$
begin
  if value is null or json_typeof(value) = 'null' then return null; end if;
  if json_typeof(value) <> 'number' or value::text !~ '^-?\d{1,9}$' or value::text::int not between low and high then
    raise exception 'drover: %: expected a whole number from % to %, got %', field, low, high, left(value::text, 200)
      using errcode = 'invalid_parameter_value';
  end if;
  return value::text::int;
end $$;

-- A moment, or the error that names the field.
create function drover.checked_time(field text, value text) returns timestamptz
language plpgsql stable as $$
begin
  if value is null then return null; end if;
  if value !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$' then
    raise exception 'drover: %: expected a time in ISO 8601 such as "2030-01-31T12:00:00Z", got %', field, value
      using errcode = 'invalid_parameter_value';
  end if;
  if extract(year from value::timestamptz at time zone 'UTC') not between 1970 and 9999 then
    raise exception 'drover: %: expected a time between the years 1970 and 9999, got %', field, value
      using errcode = 'invalid_parameter_value';
  end if;
  return value::timestamptz;
exception when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
  raise exception 'drover: %: expected a time in ISO 8601 such as "2030-01-31T12:00:00Z", got %', field, value
    using errcode = 'invalid_parameter_value';
end $$;

-- A name of a type or queue, or the error that names the field.
create function drover.checked_name(field text, value json) returns text
language plpgsql immutable as $$
declare
  name text := value #>> '{}';
begin
  if name is null then return null; end if;
  if json_typeof(value) <> 'string' or length(name) > 128 or name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$' then
    raise exception 'drover: %: expected a name of letters, digits and _ . : / @ - of at most 128 characters, got %', field, left(name, 200)
      using errcode = 'invalid_parameter_value';
  end if;
  return name;
end $$;

-- A back-off policy with every default filled in and every duration in milliseconds.
create function drover.checked_backoff(value json) returns json
language plpgsql immutable as $$
declare
  kind text;
  allowed text[];
  surplus text;
  jitter double precision;
begin
  if value is null or json_typeof(value) = 'null' then return null; end if;
  if json_typeof(value) = 'object' then kind := value->>'kind'; end if;
  allowed := case kind
    when 'exponential' then '{kind,base,factor,max,jitter}'::text[]
    when 'fixed' then '{kind,delay,jitter}'::text[]
    when 'list' then '{kind,delays,jitter}'::text[]
  end;
  if allowed is null then
    raise exception 'drover: backoff.kind: expected exponential, fixed or list, got %', left(value::text, 200)
      using errcode = 'invalid_parameter_value';
  end if;
  select key into surplus from json_object_keys(value) key where key <> all(allowed) limit 1;
  if surplus is not null then
    raise exception 'drover: backoff: unknown field "%"', surplus using errcode = 'invalid_parameter_value';
  end if;
  if kind = 'list' and (json_typeof(value->'delays') is distinct from 'array' or json_array_length(value->'delays') not between 1 and 100) then
    raise exception 'drover: backoff.delays: expected 1 to 100 durations' using errcode = 'invalid_parameter_value';
  end if;
  if kind = 'fixed' and value->>'delay' is null then
    raise exception 'drover: backoff.delay: expected a duration' using errcode = 'invalid_parameter_value';
  end if;
  jitter := drover.checked_number('backoff.jitter', value->>'jitter', 0, 1);
  return case kind
    when 'exponential' then json_build_object(
      'kind', kind,
      'base', drover.duration_ms('backoff.base', coalesce(value->>'base', '1000')),
      'factor', coalesce(drover.checked_number('backoff.factor', value->>'factor', 1, 10), 2),
      'max', drover.duration_ms('backoff.max', coalesce(value->>'max', '3600000')),
      'jitter', coalesce(jitter, 0.2))
    when 'fixed' then json_build_object(
      'kind', kind, 'delay', drover.duration_ms('backoff.delay', value->>'delay'), 'jitter', coalesce(jitter, 0))
    else json_build_object(
      'kind', kind,
      'delays', (select json_agg(drover.duration_ms('backoff.delays', d)) from json_array_elements_text(value->'delays') d),
      'jitter', coalesce(jitter, 0))
  end;
end $$;

create function drover.checked_number(field text, value text, low double precision, high double precision)
returns double precision
language plpgsql immutable as $$
begin
  if value is null then return null; end if;
  if value !~ '^-?\d{1,9}(\.\d+)?$' or value::double precision not between low and high then
    raise exception 'drover: %: expected a number from % to %, got %', field, low, high, value
      using errcode = 'invalid_parameter_value';
  end if;
  return value::double precision;
end $$;

-- The tags of a job, or null if there are none.
create function drover.checked_tags(value json) returns json
language plpgsql immutable as $$
begin
  if value is null or json_typeof(value) = 'null' then return null; end if;
  if json_typeof(value) <> 'array' or json_array_length(value) > 20 or exists (
    select from json_array_elements(value) tag
    where json_typeof(tag) <> 'string' or length(tag #>> '{}') not between 1 and 128 or tag #>> '{}' ~ '[[:cntrl:]]'
  ) then
    raise exception 'drover: tags: expected at most 20 texts of 1 to 128 characters without control characters, got %',
      left(value::text, 200) using errcode = 'invalid_parameter_value';
  end if;
  if json_array_length(value) = 0 then return null; end if;
  return value;
exception when untranslatable_character then
  raise exception 'drover: tags: expected texts without control characters, got %', left(value::text, 200)
    using errcode = 'invalid_parameter_value';
end $$;

-- How deep a JSON text is nested; exact only where it could matter, because looking at each character is slow.
create function drover.json_depth(value text) returns int
language plpgsql immutable as $$
declare
  depth int := 0;
  deepest int := 0;
  inside_text boolean := false;
  escaped boolean := false;
  character text;
begin
  if length(value) - length(translate(value, '[{', '')) <= 1000 then return 0; end if;
  foreach character in array string_to_array(value, null) loop
    if inside_text then
      if escaped then escaped := false;
      elsif character = '\' then escaped := true;
      elsif character = '"' then inside_text := false;
      end if;
    elsif character = '"' then inside_text := true;
    elsif character in ('[', '{') then
      depth := depth + 1;
      deepest := greatest(deepest, depth);
    elsif character in (']', '}') then depth := depth - 1;
    end if;
  end loop;
  return deepest;
end $$;

-- Whether a job is held when its worker is lost, or null if it does not say.
create function drover.checked_on_lost(value text) returns boolean
language plpgsql immutable as $$
begin
  if value not in ('rerun', 'hold') then
    raise exception 'drover: onLost: expected rerun or hold, got %', left(value, 200) using errcode = 'invalid_parameter_value';
  end if;
  return value = 'hold';
end $$;

-- The moment in a UUIDv7; -infinity for any other UUID.
create function drover.id_time(id uuid) returns timestamptz
language sql immutable as $$
  select case
    when substr(id::text, 15, 1) = '7' then
      to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
    else '-infinity'::timestamptz
  end
$$;

-- A UUIDv7 of this moment, for callers that bring no id.
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

-- One job as users give it, checked, in the form drover.insert_jobs takes. The payload comes apart from the rest:
-- looking into a JSON object with PostgreSQL's functions fails on \u0000 anywhere in it.
create function drover.checked_job(job json, payload text) returns json
language plpgsql volatile as $$
declare
  known constant text[] := '{id,type,payload,queue,priority,maxAttempts,backoff,timeout,retention,tags,onLost,delay,runAt,expiresAt}';
  surplus text;
  id uuid;
  payload_limit bigint := 1048576;
begin
  if job is null or json_typeof(job) <> 'object' then
    raise exception 'drover: expected a job as a JSON object, got %', left(job::text, 200) using errcode = 'invalid_parameter_value';
  end if;
  select key into surplus from json_object_keys(job) key where key <> all(known) limit 1;
  if surplus is not null then
    raise exception 'drover: unknown field "%", expected one of %', surplus, array_to_string(known, ', ')
      using errcode = 'invalid_parameter_value';
  end if;
  if job->>'type' is null then
    raise exception 'drover: type: expected the name of a job type' using errcode = 'invalid_parameter_value';
  end if;
  if job->>'delay' is not null and job->>'runAt' is not null then
    raise exception 'drover: runAt: expected either delay or runAt, not both' using errcode = 'invalid_parameter_value';
  end if;
  begin
    id := coalesce((job->>'id')::uuid, drover.new_id());
  exception when invalid_text_representation then
    raise exception 'drover: id: expected a UUID, got %', left(job->>'id', 200) using errcode = 'invalid_parameter_value';
  end;
  if drover.id_time(id) > now() + interval '1 day' then
    raise exception 'drover: id: its time lies more than a day ahead (%): check the clock of its maker', id
      using errcode = 'invalid_parameter_value';
  end if;
  select coalesce((select (value #>> '{}')::bigint from drover.setting where name = 'payloadLimit'), payload_limit) into payload_limit;
  if octet_length(payload) > payload_limit then
    raise exception 'drover: payload: % bytes, the limit is %', octet_length(payload), payload_limit
      using errcode = 'program_limit_exceeded';
  end if;
  if drover.json_depth(payload) > 1000 then
    raise exception 'drover: payload: expected JSON of at most 1000 levels' using errcode = 'invalid_parameter_value';
  end if;
  return json_build_object(
    'id', id,
    'type', drover.checked_name('type', job->'type'),
    'queue', drover.checked_name('queue', job->'queue'),
    'priority', drover.checked_int('priority', job->'priority', -1000, 1000),
    'max_attempts', drover.checked_int('maxAttempts', job->'maxAttempts', 1, 1000),
    'backoff', drover.checked_backoff(job->'backoff'),
    'timeout_ms', case when job->>'timeout' is not null then drover.duration_ms('timeout', job->>'timeout') end,
    'retention_ms', case when job->>'retention' is not null then drover.duration_ms('retention', job->>'retention') end,
    'delay_ms', case when job->>'delay' is not null then drover.duration_ms('delay', job->>'delay') end,
    'run_at', drover.checked_time('runAt', job->>'runAt'),
    'expires_at', drover.checked_time('expiresAt', job->>'expiresAt'),
    'tags', drover.checked_tags(job->'tags'),
    'hold_if_lost', drover.checked_on_lost(job->>'onLost'),
    'payload', payload
  );
end $$;

-- Inserts jobs that drover.checked_job has made and returns their ids in order.
create function drover.insert_checked(batch json) returns uuid[]
language plpgsql volatile as $$
declare
  ids uuid[];
begin
  select array_agg((job->>'id')::uuid) into ids from json_array_elements(batch) job;
  perform drover.insert_jobs(
    batch, cardinality(ids), (select min(drover.id_time(id)) from unnest(ids) id) - interval '1 day'
  );
  return ids;
end $$;

-- Adds many jobs in the caller's transaction and returns their ids in order. Each is a JSON object with
-- `type`, `payload` and any option of the API: queue, priority, delay or runAt, maxAttempts, backoff,
-- timeout, expiresAt, tags, retention, id. Workers find the jobs by polling once the transaction commits.
create function drover.enqueue_many(jobs json) returns uuid[]
language plpgsql volatile security definer
set search_path = drover, pg_temp
as $$
declare
  batch json;
begin
  if jobs is null or json_typeof(jobs) <> 'array' or json_array_length(jobs) > 10000 then
    raise exception 'drover: expected an array of at most 10000 jobs' using errcode = 'invalid_parameter_value';
  end if;
  if json_array_length(jobs) = 0 then return '{}'; end if;
  select json_agg(drover.checked_job(job, coalesce((job->'payload')::text, 'null'))) into batch
  from json_array_elements(jobs) job;
  return drover.insert_checked(batch);
exception when untranslatable_character then
  raise exception 'drover: payload: \u0000 cannot be read inside an array of jobs; add such a job with drover.enqueue'
    using errcode = 'invalid_parameter_value';
end $$;

-- Adds one job in the caller's transaction and returns its id.
create function drover.enqueue(type text, payload json default 'null', options json default '{}') returns uuid
language plpgsql volatile security definer
set search_path = drover, pg_temp
as $$
declare
  surplus text;
begin
  if json_typeof(coalesce(options, '{}')) <> 'object' then
    raise exception 'drover: options: expected a JSON object, got %', left(options::text, 200) using errcode = 'invalid_parameter_value';
  end if;
  select key into surplus from json_object_keys(coalesce(options, '{}')) key where key in ('type', 'payload') limit 1;
  if surplus is not null then
    raise exception 'drover: options: unknown field "%"', surplus using errcode = 'invalid_parameter_value';
  end if;
  return (drover.insert_checked(json_build_array(drover.checked_job(
    (select json_object_agg(key, value) from (
      select 'type' as key, to_json(enqueue.type) as value
      union all select o.key, o.value from json_each(coalesce(enqueue.options, '{}')) o
    ) fields),
    coalesce(enqueue.payload::text, 'null')
  ))))[1];
exception when untranslatable_character then
  raise exception 'drover: options: expected texts without \u0000, got %', left(options::text, 200)
    using errcode = 'invalid_parameter_value';
end $$;
