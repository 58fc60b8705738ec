-- Values that steps pass on: what a template of a workflow gives in a run. They are read from where they are, the results of
-- the jobs before, and never copied. Data never raises an error here: a value that cannot be used fails its step.

create function drover.payload_limit() returns bigint
language sql stable as $$
  select coalesce(
    (select (value #>> '{}')::bigint from drover.setting where name = 'payloadLimit'), drover.job_limit('payloadBytes')
  )
$$;

create function drover.value_error(code text, message text) returns json
language sql immutable as $$
  select json_build_object('name', 'ValueError', 'code', code, 'message', message)
$$;

-- The output of a step: null if it was skipped, has failed, or has none.
create function drover.step_value(run drover.run, wanted int) returns json
language plpgsql stable as $$
declare
  step record;
  earlier drover.run;
  bytes bigint;
  found json;
begin
  select n.kind, n.name, (n.over).texts is not null as is_map, s.met_by, s.items, s.kept_from
  into step
  from drover.node n
  left join drover.run_step s on s.run_id = run.id and s.node = n.n
  where n.workflow_id = run.workflow_id and n.n = wanted;
  if step.kept_from is not null then
    select * into earlier from drover.run r where r.id = step.kept_from;
    return drover.step_value(earlier, wanted);
  end if;
  if step.kind = 'first' then
    return case when step.met_by is not null then drover.step_value(run, step.met_by) end;
  end if;
  if not step.is_map then
    if step.kind = 'run' then
      return (
        select c.output
        from drover.run c
        where c.parent_run = run.id and c.parent_node = wanted and c.state = 'succeeded'
        order by c.finished_at desc
        limit 1
      );
    end if;
    return (
      select h.result
      from drover.job_history h
      where h.run_id = run.id and h.node = wanted and h.state = 'succeeded'
        -- the partitions that can have it
        and h.finished_at >= run.created_at and h.finished_at < now() + interval '1 day'
      -- a step that was repeated has several
      order by h.finished_at desc
      limit 1
    );
  end if;
  select sum(octet_length(i.value::text)), json_agg(i.value order by i.item)
  into bytes, found
  from (
    -- an item that has failed is null; of one that was repeated, the success counts
    select k as item, coalesce(h.value, c.value, 'null') as value
    from generate_series(0, step.items - 1) k
    left join lateral (
      select h.result as value
      from drover.job_history h
      where step.kind = 'job' and h.run_id = run.id and h.node = wanted and h.item = k and h.state = 'succeeded'
        and h.finished_at >= run.created_at and h.finished_at < now() + interval '1 day'
      order by h.finished_at desc
      limit 1
    ) h on true
    left join lateral (
      select c.output as value
      from drover.run c
      where step.kind = 'run' and c.parent_run = run.id and c.parent_node = wanted and c.parent_item = k
        and c.state = 'succeeded'
      order by c.finished_at desc
      limit 1
    ) c on true
  ) i;
  if bytes > drover.payload_limit() then
    raise exception using errcode = 'program_limit_exceeded',
      message = format('the outputs of "%s" have %s bytes together, and a value has at most %s', step.name, bytes, drover.payload_limit());
  end if;
  return coalesce(found, case when step.items = 0 then json '[]' end);
end $$;

-- The value that a source names, null if there is none. `length` counts a list or a string that has no such field.
create function drover.read_source(source drover.value_source, run drover.run, item json, index int) returns json
language plpgsql stable as $$
declare
  whole json := case source.source
    when 'input' then run.input
    when 'step' then drover.step_value(run, source.node)
    when 'item' then item
    when 'index' then to_json(index)
    when 'run' then json_build_object('id', run.id)
    when 'error' then run.error
  end;
  depth int := coalesce(cardinality(source.path), 0);
  star int := array_position(source.path, '*');
  found json;
begin
  if whole is null or depth = 0 then return whole; end if;
  if star is not null then
    if star > 1 then whole := whole #> source.path[:star - 1]; end if;
    return (
      select coalesce(json_agg(case when star = depth then item.value else item.value #> source.path[star + 1:] end), '[]')
      from json_array_elements(case when json_typeof(whole) = 'array' then whole else '[]' end) item(value)
    );
  end if;
  found := whole #> source.path;
  if found is null and source.path[depth] = 'length' then
    if depth > 1 then whole := whole #> source.path[:depth - 1]; end if;
    found := case json_typeof(whole)
      when 'array' then to_json(json_array_length(whole))
      when 'string' then to_json(length(whole #>> '{}'))
    end;
  end if;
  return found;
end $$;

-- JSON text; an absent value is null. The error says why there is none.
create function drover.fill_template(
  template drover.template, run drover.run, item json, index int, out value text, out error json
)
language plpgsql stable as $$
declare
  source drover.value_source;
  place int := 1;
begin
  value := coalesce(template.texts[1], 'null');
  if template.sources is null then return; end if;
  begin
    foreach source in array template.sources loop
      place := place + 1;
      value := value || coalesce(drover.read_source(source, run, item, index)::text, 'null') || template.texts[place];
    end loop;
    if octet_length(value) > drover.payload_limit() then
      error := drover.value_error('value_too_large', format('the value has %s bytes, expected at most %s', octet_length(value), drover.payload_limit()));
      value := null;
    end if;
  exception
    when program_limit_exceeded then
      error := drover.value_error('value_too_large', sqlerrm);
      value := null;
    when untranslatable_character then
      error := drover.value_error('value_unreadable', 'a value with \u0000 in it cannot be taken apart: pass it on as a whole');
      value := null;
  end;
end $$;

-- Whether the condition of a step holds. A comparison with an absent value, or with one of another type, does not hold.
create function drover.condition_holds(condition jsonpath, input drover.template, run drover.run) returns boolean
language plpgsql stable as $$
declare
  filled record;
begin
  filled := drover.fill_template(input, run, null, null);
  return filled.value is not null and coalesce(filled.value::jsonb @@ condition, false);
exception when untranslatable_character then
  return false;
end $$;

create function drover.step_options(step drover.node, run drover.run, item int) returns json
language sql immutable as $$
  select ('{' || step.options || ',"runId":"' || run.id || '"'
    || case when item is not null then ',"item":' || item else '' end
    || case when step.priority is null and run.priority <> 0 then ',"priority":' || run.priority else '' end
    || '}')::json
$$;

