-- The public SQL functions: drover.enqueue and drover.enqueue_many add jobs in the caller's own transaction. They check what
-- they are given by the rules of the API; a test runs both over the same corpus (test/sql/same-rules.test.ts).

-- Raises the error of a bad field: `queue: expected …, got …`. It never returns; the type of `like_this` lets its callers say
-- `return drover.refuse(…)`.
create function drover.refuse(field text, expected text, got text, like_this anyelement) returns anyelement
language plpgsql immutable as $$
begin
  raise exception 'drover: %: expected %, got %', field, expected, coalesce(left(got, 200), 'nothing') using errcode = 'invalid_parameter_value';
end $$;

-- An absent field and a null field mean the same.
create function drover.is_absent(value json) returns boolean
language sql immutable as $$
  select value is null or json_typeof(value) = 'null'
$$;

-- A JSON number; null for any other value, and for one that is too long or too large to be read.
create function drover.read_number(value json) returns double precision
language sql immutable as $$
  select case
    when json_typeof(value) = 'number' and value::text ~ '^-?[0-9]{1,20}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?$'
      then value::text::double precision
  end
$$;

create function drover.checked_duration(field text, value json) returns double precision
language plpgsql immutable as $$
declare
  parts text[];
  ms double precision;
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) = 'number' then
    ms := drover.read_number(value);
  elsif json_typeof(value) = 'string' then
    parts := regexp_match(value #>> '{}', '^\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)\s*$');
    ms := parts[1]::double precision * case parts[2]
      when 'ms' then 1 when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 when 'd' then 86400000 end;
  end if;
  -- no duration is longer than ten years
  if ms is null or ms < 0 or ms > 315360000000 then
    return drover.refuse(field, 'a duration such as "30s", "10m", "2h", "3d", or milliseconds', value::text, ms);
  end if;
  -- halves upwards, as JavaScript does
  return floor(ms + 0.5);
end $$;

create function drover.checked_number(field text, value json, low double precision, high double precision)
returns double precision
language plpgsql immutable as $$
declare
  number double precision := drover.read_number(value);
begin
  if drover.is_absent(value) then return null; end if;
  if number between low and high then return number; end if;
  return drover.refuse(field, format('a number from %s to %s', low, high), value::text, number);
end $$;

create function drover.checked_int(field text, value json, low int, high int) returns int
language plpgsql immutable as $$
declare
  number double precision := drover.read_number(value);
begin
  if drover.is_absent(value) then return null; end if;
  if number between low and high and number = trunc(number) then return number; end if;
  return drover.refuse(field, format('a whole number from %s to %s', low, high), value::text, low);
end $$;

create function drover.checked_time(field text, value json) returns timestamptz
language plpgsql stable as $$
declare
  given text := value #>> '{}';
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'string' or given
    !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$'
  then
    return drover.refuse(field, 'a time in ISO 8601 such as "2030-01-31T12:00:00Z"', value::text, now());
  end if;
  -- whole milliseconds, as JavaScript has them
  given := regexp_replace(given, '(\.[0-9]{3})[0-9]+', '\1');
  if extract(year from given::timestamptz at time zone 'UTC') not between 1970 and 9999 then
    return drover.refuse(field, 'a time between the years 1970 and 9999', value::text, now());
  end if;
  return given::timestamptz;
exception when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
  return drover.refuse(field, 'a time in ISO 8601 such as "2030-01-31T12:00:00Z"', value::text, now());
end $$;

create function drover.checked_name(field text, value json) returns text
language plpgsql immutable as $$
declare
  name text := value #>> '{}';
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'string' or length(name) > drover.job_limit('nameLength')
    or name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$'
  then
    return drover.refuse(
      field,
      format('a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, of at most %s characters',
        drover.job_limit('nameLength')),
      value::text, name);
  end if;
  return name;
end $$;

create function drover.checked_choice(field text, value json, choices text[]) returns text
language plpgsql immutable as $$
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'string' or (value #>> '{}') <> all(choices) then
    return drover.refuse(field, array_to_string(choices, ' or '), value::text, ''::text);
  end if;
  return value #>> '{}';
end $$;

create function drover.checked_idempotency_key(value json) returns text
language plpgsql immutable as $$
declare
  expected constant text := format('a string of 1 to %s characters without control characters',
    drover.job_limit('idempotencyKeyLength'));
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'string' or length(value #>> '{}') not between 1 and drover.job_limit('idempotencyKeyLength')
    or value #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f]'
  then
    return drover.refuse('idempotencyKey', expected, value::text, ''::text);
  end if;
  return value #>> '{}';
exception when untranslatable_character then
  return drover.refuse('idempotencyKey', expected, value::text, ''::text);
end $$;

create function drover.checked_boolean(field text, value json) returns boolean
language plpgsql immutable as $$
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'boolean' then return drover.refuse(field, 'true or false', value::text, true); end if;
  return (value #>> '{}')::boolean;
end $$;

-- An empty list stays one: it says that the tags of the type do not apply.
create function drover.checked_tags(value json) returns json
language plpgsql immutable as $$
declare
  expected constant text := format('at most %s strings of 1 to %s characters without control characters',
    drover.job_limit('tags'), drover.job_limit('tagLength'));
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'array' or json_array_length(value) > drover.job_limit('tags') or exists (
    select from json_array_elements(value) tag
    where json_typeof(tag) <> 'string'
      or length(tag #>> '{}') not between 1 and drover.job_limit('tagLength') or tag #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f]'
  ) then
    return drover.refuse('tags', expected, value::text, value);
  end if;
  return value;
exception when untranslatable_character then
  return drover.refuse('tags', expected, value::text, value);
end $$;

-- A back-off policy with every default filled in and every duration in milliseconds.
create function drover.checked_backoff(value json) returns json
language plpgsql immutable as $$
declare
  kind text := case when json_typeof(value) = 'object' then value->>'kind' end;
  delays json := case when kind = 'list' then value->'delays' end;
  allowed text[] := case kind
    when 'exponential' then '{kind,base,factor,max,jitter}'::text[]
    when 'fixed' then '{kind,delay,jitter}'::text[]
    when 'list' then '{kind,delays,jitter}'::text[]
  end;
begin
  if drover.is_absent(value) then return null; end if;
  if json_typeof(value) <> 'object' then
    return drover.refuse('backoff', 'a JSON object', value::text, value);
  end if;
  if allowed is null then
    return drover.refuse('backoff.kind', 'exponential, fixed or list', (value->'kind')::text, value);
  end if;
  perform drover.refuse_unknown_fields('backoff', value, allowed);
  if kind = 'fixed' and drover.is_absent(value->'delay') then
    return drover.refuse('backoff.delay', 'a duration', 'nothing', value);
  end if;
  if kind = 'list' and (
    coalesce(json_typeof(delays), '') <> 'array' or json_array_length(delays) not between 1 and drover.job_limit('backoffDelays')
  ) then
    return drover.refuse('backoff.delays', format('1 to %s durations', drover.job_limit('backoffDelays')), delays::text, value);
  end if;
  return case kind
    when 'exponential' then json_build_object(
      'kind', kind,
      'base', coalesce(drover.checked_duration('backoff.base', value->'base'), 1000),
      'factor', coalesce(drover.checked_number('backoff.factor', value->'factor', 1, 10), 2),
      'max', coalesce(drover.checked_duration('backoff.max', value->'max'), 3600000),
      'jitter', coalesce(drover.checked_number('backoff.jitter', value->'jitter', 0, 1), 0.2))
    when 'fixed' then json_build_object(
      'kind', kind,
      'delay', drover.checked_duration('backoff.delay', value->'delay'),
      'jitter', coalesce(drover.checked_number('backoff.jitter', value->'jitter', 0, 1), 0))
    else json_build_object(
      'kind', kind,
      'delays', (
        select json_agg(coalesce(
          drover.checked_duration(format('backoff.delays[%s]', place - 1), delay),
          drover.refuse(format('backoff.delays[%s]', place - 1), 'a duration', 'null', null::double precision)
        ) order by place)
        from json_array_elements(delays) with ordinality as listed(delay, place)
      ),
      'jitter', coalesce(drover.checked_number('backoff.jitter', value->'jitter', 0, 1), 0))
  end;
end $$;

create function drover.refuse_unknown_fields(place text, value json, known text[]) returns void
language plpgsql immutable as $$
declare
  unknown text;
begin
  select key into unknown from json_object_keys(value) key where key <> all(known) limit 1;
  if unknown is not null then
    raise exception 'drover: %unknown field "%", expected one of %', case when place <> '' then place || ': ' else '' end,
      left(unknown, 200), array_to_string(known, ', ') using errcode = 'invalid_parameter_value';
  end if;
end $$;

-- How deep a JSON text is nested; exact only where it could matter, because visiting each character is slow.
create function drover.json_depth(value text) returns int
language plpgsql immutable as $$
declare
  depth int := 0;
  deepest int := 0;
  inside_text boolean := false;
  escaped boolean := false;
  character text;
begin
  if length(value) - length(translate(value, '[{', '')) <= drover.job_limit('payloadDepth') then return 0; end if;
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

create function drover.checked_payload(payload text) returns text
language plpgsql stable as $$
declare
  size_limit bigint := coalesce(
    (select (value #>> '{}')::bigint from drover.setting where name = 'payloadLimit'), drover.job_limit('payloadBytes')
  );
begin
  if octet_length(payload) > size_limit then
    raise exception 'drover: payload: expected at most % bytes of JSON, got %', size_limit, octet_length(payload)
      using errcode = 'program_limit_exceeded';
  end if;
  if drover.json_depth(payload) > drover.job_limit('payloadDepth') then
    raise exception 'drover: payload: expected JSON of at most % levels', drover.job_limit('payloadDepth')
      using errcode = 'invalid_parameter_value';
  end if;
  return payload;
end $$;

-- The given id; else the one of the idempotency key; else a new one. The SDK gives the key's id too, because it knows it.
create function drover.checked_id(value json, type text, key text) returns uuid
language plpgsql volatile as $$
declare
  id uuid;
  keyed constant uuid := drover.id_of_key(type, key);
begin
  if drover.is_absent(value) then return coalesce(keyed, drover.new_id()); end if;
  if json_typeof(value) <> 'string' or value #>> '{}' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    return drover.refuse('id', 'a UUID (idempotencyKey takes any text)', value::text, id);
  end if;
  id := (value #>> '{}')::uuid;
  if id <> keyed then
    return drover.refuse('id', format('no id beside idempotencyKey, which makes it %s', keyed), value::text, id);
  end if;
  if drover.id_time(id) > now() + interval '1 day' then
    raise exception 'drover: id: its time is more than a day ahead (%): check the clock of the machine that created it', id
      using errcode = 'invalid_parameter_value';
  end if;
  return id;
end $$;

-- The options of a job: their names, and their checks in checked_options.
create function drover.job_option_names() returns text[]
language sql immutable as $$
  select '{id,queue,priority,maxAttempts,backoff,timeout,retention,tags,onLost,onFailure,delay,runAt,expiresAt,idempotencyKey}'::text[]
$$;

-- Without id and queue, which have a place of their own. Null if there are none.
create function drover.checked_options(job json) returns json
language sql stable as $$
  select nullif(json_strip_nulls(json_build_object(
    'priority', drover.checked_int('priority', job->'priority', -drover.job_limit('priority'), drover.job_limit('priority')),
    'maxAttempts', drover.checked_int('maxAttempts', job->'maxAttempts', 1, drover.job_limit('maxAttempts')),
    'backoff', drover.checked_backoff(job->'backoff'),
    'timeout', drover.checked_duration('timeout', job->'timeout'),
    'retention', drover.checked_duration('retention', job->'retention'),
    'delay', drover.checked_duration('delay', job->'delay'),
    'runAt', drover.checked_time('runAt', job->'runAt'),
    'expiresAt', drover.checked_time('expiresAt', job->'expiresAt'),
    'tags', drover.checked_tags(job->'tags'),
    'onLost', drover.checked_choice('onLost', job->'onLost', '{rerun,hold}'),
    'onFailure', drover.checked_name('onFailure', job->'onFailure'),
    'idempotencyKey', drover.checked_idempotency_key(job->'idempotencyKey')
  ))::text, '{}')::json
$$;

-- One job as users give it, checked, in the form drover.insert_job_rows takes. The payload comes apart from the rest: reading
-- a JSON object with PostgreSQL's functions fails on \u0000 anywhere in it.
create function drover.checked_job(job json, payload text) returns json
language plpgsql volatile as $$
begin
  if job is null or json_typeof(job) <> 'object' then
    return drover.refuse('job', 'a JSON object', coalesce(job::text, 'null'), job);
  end if;
  perform drover.refuse_unknown_fields('', job, '{type,payload}' || drover.job_option_names() || '{complete}');
  if drover.is_absent(job->'type') then
    return drover.refuse('type', 'the name of a job type', 'nothing', job);
  end if;
  if not drover.is_absent(job->'delay') and not drover.is_absent(job->'runAt') then
    raise exception 'drover: runAt: expected either delay or runAt, not both' using errcode = 'invalid_parameter_value';
  end if;
  return json_build_object(
    'id', drover.checked_id(
      job->'id', drover.checked_name('type', job->'type'), drover.checked_idempotency_key(job->'idempotencyKey')),
    'type', job->>'type',
    'queue', drover.checked_name('queue', job->'queue'),
    'payload', drover.checked_payload(payload),
    'complete', drover.checked_boolean('complete', job->'complete'),
    'options', drover.checked_options(job)
  );
end $$;

-- Adds many jobs in the caller's transaction and returns their ids in order. Each is a JSON object with `type`, `payload` and
-- any option of the API. Workers find the jobs by polling once the transaction commits. An option that is absent comes from the
-- definition of the type, unless the job is `complete` (see drover.insert_job_rows).
create function drover.enqueue_many(jobs json) returns uuid[]
language plpgsql volatile security definer
set search_path = drover, pg_temp
as $$
declare
  batch json;
  one json;
  index bigint;
  problem text;
begin
  if jobs is null or json_typeof(jobs) <> 'array' or json_array_length(jobs) > drover.job_limit('batchJobs') then
    raise exception 'drover: jobs: expected an array of at most % jobs, got %', drover.job_limit('batchJobs'),
      case when json_typeof(jobs) = 'array' then json_array_length(jobs)::text else coalesce(left(jobs::text, 200), 'nothing') end
      using errcode = 'invalid_parameter_value';
  end if;
  if json_array_length(jobs) = 0 then return '{}'; end if;
  select json_agg(drover.checked_job(job, coalesce((job->'payload')::text, 'null')) order by place) into batch
  from json_array_elements(jobs) with ordinality as given(job, place);
  perform drover.insert_job_rows(batch);
  return array(
    select (row->>'id')::uuid from json_array_elements(batch) with ordinality as made(row, place) order by place
  );
exception when untranslatable_character then
  raise exception 'drover: payload: \u0000 cannot be read inside an array of jobs; add such a job with drover.enqueue'
    using errcode = 'invalid_parameter_value';
when invalid_parameter_value then
  problem := sqlerrm;
  -- Which of them it is: only now, because a check of each alone costs a subtransaction.
  for one, index in
    select given.job, given.place - 1
    from json_array_elements(case when json_typeof(jobs) = 'array' then jobs end) with ordinality as given(job, place)
  loop
    begin
      perform drover.checked_job(one, coalesce((one->'payload')::text, 'null'));
    exception when invalid_parameter_value then
      raise exception '%', regexp_replace(sqlerrm, '^drover: ', format('drover: jobs[%s]: ', index))
        using errcode = 'invalid_parameter_value';
    end;
  end loop;
  raise exception '%', problem using errcode = 'invalid_parameter_value';
end $$;

-- Adds one job in the caller's transaction and returns its id.
create function drover.enqueue(type text, payload json default 'null', options json default '{}') returns uuid
language plpgsql volatile security definer
set search_path = drover, pg_temp
as $$
declare
  job json;
begin
  if json_typeof(coalesce(options, '{}')) <> 'object' then
    return drover.refuse('options', 'a JSON object', options::text, null::uuid);
  end if;
  perform drover.refuse_unknown_fields('options', coalesce(options, '{}'), drover.job_option_names() || '{complete}');
  select json_object_agg(key, value) into job from (
    select 'type' as key, to_json(enqueue.type) as value
    union all
    select o.key, o.value from json_each(coalesce(enqueue.options, '{}')) o
  ) fields;
  job := drover.checked_job(job, coalesce(enqueue.payload::text, 'null'));
  perform drover.insert_job_rows(json_build_array(job));
  return (job->>'id')::uuid;
exception when untranslatable_character then
  raise exception 'drover: options: expected strings without \u0000, got %', left(options::text, 200)
    using errcode = 'invalid_parameter_value';
end $$;
