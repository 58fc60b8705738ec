-- How steps of runs follow each other: failures, edges, and what a due step becomes.

-- The end of a step, or of an item of a map.
create type drover.step_ending as (run_id uuid, node int, item int, state text);
-- A step whose parents have all ended; without `is_met`, an edge to it was not met.
create type drover.due_step as (run_id uuid, node int, is_met boolean);
create type drover.step_job as (id uuid, run_id uuid, type text, queue text, payload text, options json);
-- What a part of a move has led to. `opened` and `closed` name a run once for each unit (see drover.run.open) that began or
-- ended, beside those of `jobs`.
create type drover.wave as (
  jobs drover.step_job[], endings drover.step_ending[], due drover.due_step[], opened uuid[], closed uuid[]
);

create function drover.add_waves(one drover.wave, other drover.wave) returns drover.wave
language sql immutable as $$
  select (one.jobs || other.jobs, one.endings || other.endings, one.due || other.due, one.opened || other.opened,
    one.closed || other.closed)::drover.wave
$$;

-- Why a step has failed.
create function drover.step_error(run drover.run, wanted int) returns json
language sql stable as $$
  select coalesce(
    (select s.error from drover.run_step s where s.run_id = run.id and s.node = wanted),
    (
      select h.error
      from drover.job_history h
      where h.run_id = run.id and h.node = wanted and h.state <> 'succeeded' and h.finished_at >= run.created_at
      order by h.state = 'cancelled', h.finished_at
      limit 1
    ),
    (
      select c.error
      from drover.run c
      where c.parent_run = run.id and c.parent_node = wanted and c.state in ('failed', 'cancelled')
      order by c.state = 'cancelled', c.finished_at
      limit 1
    ),
    json_build_object('name', 'CancelledError', 'code', 'cancelled', 'message', 'it was cancelled')
  )
$$;

-- Failures that nothing handles make their run fail; with failFast, its other steps are stopped.
create function drover.note_failures(endings drover.step_ending[]) returns void
language sql volatile as $$
  with failed as (
    select distinct on (e.run_id) e.run_id, n.n, n.name, n.role, w.fails_fast
    from unnest(endings) e
    join drover.run r on r.id = e.run_id and r.ending is null
    join drover.workflow w on w.id = r.workflow_id
    join drover.node n on n.workflow_id = r.workflow_id and n.n = e.node
    where e.item is null and e.state in ('failed', 'cancelled') and not n.continues_on_failure
      and not exists (
        select from drover.edge g where g.workflow_id = n.workflow_id and g.parent = n.n and g.on_state = 'failure'
      )
    order by e.run_id, e.state = 'cancelled', n.n
  )
  update drover.run r
  set ending = 'failed', error = json_build_object('step', f.name, 'error', drover.step_error(r, f.n)),
    stopped_at = case when f.fails_fast and f.role = 'step' then now() end
  from failed f
  where r.id = f.run_id
$$;

create function drover.edge_is_met(on_state text, parent_state text, continues_on_failure boolean) returns boolean
language sql immutable as $$
  select case on_state
    when 'always' then true
    when 'failure' then parent_state in ('failed', 'cancelled')
    else parent_state = 'succeeded' or (parent_state in ('failed', 'cancelled') and continues_on_failure)
  end
$$;

-- Passes endings of steps on along their edges: the steps whose parents have now all ended.
create function drover.pass_on(endings drover.step_ending[]) returns drover.due_step[]
language sql volatile as $$
  with passed as (
    select e.run_id, r.workflow_id, g.child, count(*)::int as arrived,
      (count(*) filter (where not m.is_met))::int as unmet,
      min(e.node) filter (where m.is_met) as met_by
    from unnest(endings) e
    join drover.run r on r.id = e.run_id and r.ending is distinct from 'cancelled'
    join drover.edge g on g.workflow_id = r.workflow_id and g.parent = e.node
    join drover.node p on p.workflow_id = r.workflow_id and p.n = e.node
    cross join lateral (
      select drover.edge_is_met(g.on_state, e.state, p.continues_on_failure) as is_met
    ) m
    where e.item is null
    group by e.run_id, r.workflow_id, g.child
  ), child as (
    select p.*, n.in_degree, n.kind
    from passed p
    join drover.node n on n.workflow_id = p.workflow_id and n.n = p.child
  ), joined as (
    insert into drover.run_step as s (run_id, node, arrived, unmet, met_by)
    select run_id, child, arrived, unmet, met_by from child where in_degree > 1
    on conflict (run_id, node) do update
    set arrived = s.arrived + excluded.arrived, unmet = s.unmet + excluded.unmet, met_by = least(s.met_by, excluded.met_by)
    returning s.run_id, s.node, s.arrived, s.unmet
  )
  select coalesce(array_agg((run_id, node, is_met)::drover.due_step), '{}')
  from (
    select run_id, child as node, unmet = 0 as is_met from child where in_degree = 1
    union all
    select j.run_id, j.node, case when c.kind = 'first' then j.unmet < c.in_degree else j.unmet = 0 end
    from joined j
    join child c on c.run_id = j.run_id and c.child = j.node
    where j.arrived = c.in_degree
  ) due
$$;

-- The first steps of a run.
create function drover.first_steps(run drover.run) returns drover.due_step[]
language sql stable as $$
  select coalesce(array_agg((run.id, n.n, true)::drover.due_step), '{}')
  from drover.node n
  where n.workflow_id = run.workflow_id and n.role = 'step' and n.in_degree = 0
$$;

-- Starts a run of a workflow as a step, or an item, of another run. It begins with one open unit, which ends with this move, so
-- that it is never at 0. The error says why there is none.
create function drover.start_child_run(
  step drover.node, parent drover.run, item int, input text, out wave drover.wave, out error json
)
language plpgsql volatile as $$
declare
  child drover.workflow;
  run drover.run;
begin
  select * into child from drover.workflow w where w.name = step.target order by w.version desc limit 1;
  if child.id is null then
    error := drover.value_error('workflow_not_found', format('there is no workflow "%s"', step.target));
  elsif parent.depth >= drover.job_limit('runDepth') then
    error := drover.value_error('too_deep', format('runs are nested at most %s deep', drover.job_limit('runDepth')));
  else
    insert into drover.run
      (id, workflow_id, open, priority, input, parent_run, parent_node, parent_item, depth, expires_at)
    values (drover.new_id(), child.id, 1, coalesce(step.priority, parent.priority), input::json, parent.id, step.n, item,
      parent.depth + 1, now() + child.timeout_ms * interval '1 millisecond')
    returning * into run;
    wave.due := drover.first_steps(run);
    wave.opened := array[parent.id];
    wave.closed := array[run.id];
  end if;
end $$;

-- A step, or an item of a map, that has failed without a job.
create function drover.fail_step(run_id uuid, node int, item int, error json) returns drover.wave
language sql volatile as $$
  insert into drover.run_step as s (run_id, node, state, error)
  values (run_id, node, case when item is null then 'failed' end, error)
  on conflict (run_id, node) do update
  set state = coalesce(excluded.state, s.state), error = coalesce(s.error, excluded.error);
  select (null, array[(run_id, node, item, 'failed')::drover.step_ending], null, null, null)::drover.wave
$$;

-- Starts the items `first` to `last` of a map. Their jobs are aggregated: appended one by one, all would be copied each time.
create function drover.start_items(step drover.node, run drover.run, first int, last int) returns drover.wave
language plpgsql volatile as $$
declare
  wave drover.wave;
  filled_items record;
  child record;
  error json;
begin
  with filled as materialized (
    select k, c.indexes[k % 100 + 1] as index, f.value, f.error, f.error is null and step.kind = 'job' as is_job
    from generate_series(first, last) k
    join drover.run_items c on c.run_id = run.id and c.node = step.n and c.chunk = k / 100
    cross join lateral drover.fill_template(step.input, run, c.items[k % 100 + 1], c.indexes[k % 100 + 1]) f
  )
  select
    array_agg(
      (drover.new_id(), run.id, step.target, step.queue, value, drover.step_options(step, run, index))::drover.step_job
      order by k
    ) filter (where is_job) as jobs,
    array_agg(index order by k) filter (where not is_job) as indexes,
    array_agg(value order by k) filter (where not is_job) as values,
    array_agg(filled.error order by k) filter (where not is_job) as errors
  into filled_items
  from filled;
  wave.jobs := filled_items.jobs;
  for i in 1 .. coalesce(cardinality(filled_items.indexes), 0) loop
    error := filled_items.errors[i];
    if error is null then
      select c.wave, c.error into child from drover.start_child_run(step, run, filled_items.indexes[i], filled_items.values[i]) c;
      error := child.error;
    end if;
    wave := drover.add_waves(wave, case
      when error is null then child.wave else drover.fail_step(run.id, step.n, filled_items.indexes[i], error) end);
  end loop;
  return wave;
end $$;

-- Starts a map: stores its items, and starts as many as may run at the same time.
create function drover.start_map(step drover.node, run drover.run) returns drover.wave
language plpgsql volatile as $$
declare
  list record;
  total int;
  to_run int;
  started int;
begin
  list := drover.fill_template(step.over, run, null, null);
  if list.error is null and json_typeof(list.value::json) <> 'array' then
    list.error := drover.value_error('not_a_list', format('over: expected a list, got %s', left(list.value, 200)));
  end if;
  total := case when list.error is null then json_array_length(list.value::json) end;
  if total > drover.job_limit('mapItems') then
    list.error := drover.value_error('too_many_items',
      format('over: expected at most %s items, got %s', drover.job_limit('mapItems'), total));
  end if;
  if list.error is not null then
    return drover.fail_step(run.id, step.n, null, list.error);
  end if;
  delete from drover.run_items i where i.run_id = run.id and i.node = step.n;
  insert into drover.run_step as s (run_id, node, items) values (run.id, step.n, total)
  on conflict (run_id, node) do update
  set items = excluded.items, next_item = 0, ended_items = 0, failed_items = 0, state = null, error = null;
  insert into drover.run_items (run_id, node, chunk, indexes, items)
  select run.id, step.n, place / 100, array_agg(index order by place), array_agg(item order by place)
  from (
    select index - 1 as index, item, row_number() over (order by index) - 1 as place
    from json_array_elements(list.value::json) with ordinality as listed(item, index)
    -- a retry runs what has not succeeded
    where run.tries = 1 or not drover.item_succeeded(run, step, (index - 1)::int)
  ) left_over
  group by place / 100;
  select coalesce(sum(cardinality(i.items)), 0) into to_run
  from drover.run_items i
  where i.run_id = run.id and i.node = step.n;
  update drover.run_step s
  set items_to_run = to_run, next_item = least(to_run, coalesce(step.concurrency, drover.job_limit('mapWindow'))),
    state = case when to_run = 0 then 'succeeded' end
  where s.run_id = run.id and s.node = step.n
  returning s.next_item into started;
  if to_run = 0 then
    return (null, array[(run.id, step.n, null, 'succeeded')::drover.step_ending], null, null, null)::drover.wave;
  end if;
  return drover.start_items(step, run, 0, started - 1);
end $$;

create function drover.item_succeeded(run drover.run, step drover.node, wanted int) returns boolean
language sql stable as $$
  select exists (
    select from drover.job_history h
    where h.run_id = run.id and h.node = step.n and h.item = wanted and h.state = 'succeeded' and h.finished_at >= run.created_at
  ) or exists (
    select from drover.run c
    where c.parent_run = run.id and c.parent_node = step.n and c.parent_item = wanted and c.state = 'succeeded'
  )
$$;

-- Counts items that have ended, starts the next ones, and ends the maps whose last item it was.
create function drover.end_items(ended drover.step_ending[]) returns drover.wave
language plpgsql volatile as $$
declare
  wave drover.wave;
  map record;
  run drover.run;
  step drover.node;
  tolerated int;
  last int;
begin
  for map in
    update drover.run_step s
    set ended_items = s.ended_items + c.ended, failed_items = s.failed_items + c.failed
    from (
      select e.run_id, e.node, count(*)::int as ended, (count(*) filter (where e.state <> 'succeeded'))::int as failed
      from unnest(ended) e
      where e.item is not null
      group by e.run_id, e.node
    ) c
    where s.run_id = c.run_id and s.node = c.node
    returning s.*, c.ended
  loop
    select * into run from drover.run r where r.id = map.run_id;
    select * into step from drover.node n where n.workflow_id = run.workflow_id and n.n = map.node;
    tolerated := coalesce(step.tolerated, floor(step.tolerated_percent * map.items / 100)::int, 0);
    if map.failed_items <= tolerated and run.stopped_at is null and map.next_item < map.items_to_run then
      last := least(map.next_item + map.ended, map.items_to_run) - 1;
      update drover.run_step s set next_item = last + 1 where s.run_id = map.run_id and s.node = map.node;
      wave := drover.add_waves(wave, drover.start_items(step, run, map.next_item, last));
    elsif map.ended_items = map.next_item then
      update drover.run_step s
      set state = case
        when map.failed_items > tolerated then 'failed' when map.ended_items < map.items_to_run then 'cancelled' else 'succeeded' end
      where s.run_id = map.run_id and s.node = map.node
      returning s.state into map.state;
      delete from drover.run_items i where i.run_id = map.run_id and i.node = map.node;
      wave.endings := wave.endings || (map.run_id, map.node, null, map.state)::drover.step_ending;
    end if;
  end loop;
  return wave;
end $$;

-- Starts due steps, or ends them at once.
create function drover.start_steps(steps drover.due_step[]) returns drover.wave
language plpgsql volatile as $$
declare
  wave drover.wave;
  other record;
  child record;
  filled record;
begin
  with judged as materialized (
    select s.run_id, s.node,
      case
        when not s.is_met then 'unmet'
        -- a run that is being stopped starts only what follows a failure
        when r.stopped_at is not null and r.phase = 0 and not exists (
          select from drover.edge g
          where g.workflow_id = r.workflow_id and g.child = s.node and g.on_state <> 'success'
        ) then 'stopped'
        when n.condition is not null and not drover.condition_holds(n.condition, n.condition_input, r) then 'condition'
      end as reason
    from unnest(steps) s
    join drover.run r on r.id = s.run_id
    join drover.node n on n.workflow_id = r.workflow_id and n.n = s.node
  ), skipped as (
    insert into drover.run_step (run_id, node, state, reason)
    select run_id, node, 'skipped', reason from judged where reason is not null
    on conflict (run_id, node) do update set state = excluded.state, reason = excluded.reason
  )
  select array_agg((run_id, node, true)::drover.due_step) filter (where reason is null),
    array_agg((run_id, node, null, 'skipped')::drover.step_ending) filter (where reason is not null)
  into steps, wave.endings
  from judged;
  if steps is null then return wave; end if;

  with filled as materialized (
    select r.id as run_id, step.n as node, step.target, step.queue, drover.step_options(step, r, null) as options, f.value, f.error
    from unnest(steps) s
    join drover.run r on r.id = s.run_id
    join drover.node step on step.workflow_id = r.workflow_id and step.n = s.node
    cross join lateral drover.fill_template(step.input, r, null, null) f
    where step.kind = 'job' and (step.over).texts is null
  ), failed as (
    insert into drover.run_step (run_id, node, state, error)
    select run_id, node, 'failed', error from filled where error is not null
    on conflict (run_id, node) do update set state = excluded.state, error = excluded.error
  )
  select
    array_agg((drover.new_id(), run_id, target, queue, value, options)::drover.step_job) filter (where error is null),
    wave.endings || array_agg((run_id, node, null, 'failed')::drover.step_ending) filter (where error is not null)
  into wave.jobs, wave.endings
  from filled;

  for other in
    select step, r as run
    from unnest(steps) s
    join drover.run r on r.id = s.run_id
    join drover.node step on step.workflow_id = r.workflow_id and step.n = s.node
    where step.kind <> 'job' or (step.over).texts is not null
  loop
    if (other.step).kind = 'first' then
      update drover.run_step s set state = 'succeeded' where s.run_id = (other.run).id and s.node = (other.step).n;
      wave.endings := wave.endings || ((other.run).id, (other.step).n, null, 'succeeded')::drover.step_ending;
    elsif ((other.step).over).texts is not null then
      wave := drover.add_waves(wave, drover.start_map(other.step, other.run));
    else
      filled := drover.fill_template((other.step).input, other.run, null, null);
      if filled.error is null then
        select c.wave, c.error into child from drover.start_child_run(other.step, other.run, null, filled.value) c;
        filled.error := child.error;
      end if;
      wave := drover.add_waves(wave, case
        when filled.error is null then child.wave else drover.fail_step((other.run).id, (other.step).n, null, filled.error) end);
    end if;
  end loop;
  return wave;
end $$;

