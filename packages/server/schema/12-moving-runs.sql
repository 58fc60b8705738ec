-- How runs move: when jobs and child runs end, what follows is started by the same transaction.
--
-- Everything works on batches: one call moves all runs that a statement has touched. A call goes in waves: endings are passed on
-- along edges, which makes steps due; due steps become jobs, or end at once (skipped, a wrong input, an empty map), which is
-- the next wave. Data never raises an error here: a value that cannot be used fails its step.

-- Ends the phase of a run: returns what the next one starts, and ends the run if that is nothing.
create function drover.end_phase(run drover.run) returns drover.due_step[]
language plpgsql volatile as $$
declare
  due drover.due_step[];
begin
  if run.phase = 0 then
    update drover.run r
    set phase = case when r.ending is null then 2 else 1 end, stopped_at = null
    where r.id = run.id
    returning * into run;
    if run.phase = 1 then
      insert into drover.run_step (run_id, node, state, place)
      select run.id, u.n, 'waiting', row_number() over (order by e.ended_at desc, u.undoes desc)
      from drover.node u
      cross join lateral drover.step_success(run, u.undoes) e(ended_at)
      where u.workflow_id = run.workflow_id and u.role = 'undo' and e.ended_at is not null;
    end if;
  elsif run.phase = 2 then
    perform drover.end_run(run);
    return null;
  end if;

  if run.phase = 1 then
    update drover.run_step s
    set state = null
    where s.run_id = run.id and s.state = 'waiting' and s.place = (
      select min(w.place) from drover.run_step w where w.run_id = run.id and w.place is not null and w.state = 'waiting'
    )
    returning array[(s.run_id, s.node, true)::drover.due_step] into due;
    if due is not null then return due; end if;
    update drover.run r set phase = 2 where r.id = run.id returning * into run;
  end if;

  select array_agg((run.id, n.n, true)::drover.due_step order by n.n) into due
  from drover.node n
  where n.workflow_id = run.workflow_id and (n.role = 'finally' or (n.role = 'onFailure' and run.ending = 'failed'));
  if due is null then perform drover.end_run(run); end if;
  return due;
end $$;

-- When a step has succeeded; null if it has not. For a map: when its last item has.
create function drover.step_success(run drover.run, wanted int) returns timestamptz
language sql stable as $$
  select max(e.ended_at)
  from (
    select h.finished_at as ended_at
    from drover.job_history h
    where h.run_id = run.id and h.node = wanted and h.state = 'succeeded' and h.finished_at >= run.created_at
    union all
    select c.finished_at
    from drover.run c
    where c.parent_run = run.id and c.parent_node = wanted and c.state = 'succeeded'
  ) e
$$;

create function drover.end_run(run drover.run) returns void
language plpgsql volatile as $$
declare
  filled record;
begin
  select f.value, f.error into filled
  from drover.workflow w
  cross join lateral drover.fill_template(w.output, run, null, null) f
  where w.id = run.workflow_id and (w.output).texts is not null and run.ending is null;
  update drover.run r
  set open = 0, finished_at = now(), output = filled.value::json,
    state = case when filled.error is not null then 'failed' else coalesce(r.ending, 'succeeded') end,
    error = case when filled.error is not null then json_build_object('step', null, 'error', filled.error) else r.error end
  where r.id = run.id
  returning * into run;
  insert into drover.run_ending (run_id, node, item, state)
  select run.parent_run, run.parent_node, run.parent_item, run.state where run.parent_run is not null;
end $$;

-- Moves runs by the endings of steps, or from their first steps. `closed` names a run once for each of its units that has
-- ended. The caller holds the locks of all these runs. Returns the jobs that were added.
create function drover.move_runs(endings drover.step_ending[], due drover.due_step[], closed uuid[])
returns setof drover.step_job
language plpgsql volatile as $$
declare
  jobs drover.step_job[] := '{}';
  opened uuid[] := '{}';
  wave drover.wave;
  idle drover.run[];
  run drover.run;
begin
  loop
    while cardinality(endings) > 0 or cardinality(due) > 0 loop
      wave := (null, null, null, null, null);
      if exists (select from unnest(endings) e where e.item is not null) then
        wave := drover.end_items(endings);
        -- what they have ended is passed on with the rest
        endings := endings || wave.endings;
        wave.endings := null;
      end if;
      if cardinality(endings) > 0 then
        if exists (select from unnest(endings) e where e.item is null and e.state in ('failed', 'cancelled')) then
          perform drover.note_failures(endings);
        end if;
        due := due || drover.pass_on(endings);
      end if;
      if cardinality(due) > 0 then
        wave := drover.add_waves(wave, drover.start_steps(due));
      end if;
      jobs := jobs || wave.jobs;
      opened := opened || wave.opened || array(select j.run_id from unnest(wave.jobs) j);
      closed := closed || wave.closed;
      endings := coalesce(wave.endings, '{}');
      due := coalesce(wave.due, '{}');
    end loop;

    -- runs without an ending of their own end here
    with delta as (
      select u.run_id, sum(u.change)::int as change
      from (
        select unnest(opened) as run_id, 1 as change
        union all
        select unnest(closed), -1
      ) u
      group by u.run_id
    ), now_idle as (
      select r
      from delta d
      join drover.run r on r.id = d.run_id
      where r.state = 'running' and r.open + d.change = 0
    )
    select array_agg(r order by (r).id) into idle from now_idle;
    exit when idle is null;
    foreach run in array idle loop
      due := due || drover.end_phase(run);
    end loop;
    exit when due = '{}' or due is null;
  end loop;

  update drover.run r
  set open = r.open + d.change
  from (
    select u.run_id, sum(u.change)::int as change
    from (
      select unnest(opened) as run_id, 1 as change
      union all
      select unnest(closed), -1
    ) u
    group by u.run_id
    having sum(u.change) <> 0
  ) d
  where r.id = d.run_id and r.state = 'running';

  if cardinality(jobs) > 0 then
    -- a step that names its type gets the defaults of the type, like any job that is added by name
    perform drover.insert_jobs(
      array_agg(j.id), array_agg(j.type), array_agg(coalesce(j.queue, t.defaults->>'queue')), array_agg(j.payload), null,
      array_agg(case when t.type is null then j.options else ((t.defaults - 'queue') || j.options::jsonb)::json end), 'infinity'
    )
    from unnest(jobs) j
    left join drover.job_type t on t.type = j.type and j.options->>'complete' is null;
  end if;
  return query select * from unnest(jobs);
end $$;

-- Called by the statement that ends jobs of runs.
create function drover.advance(run_ids uuid[], nodes int[], items int[], states text[]) returns setof drover.step_job
language plpgsql volatile
set search_path = drover, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
begin
  perform from drover.run r where r.id = any(run_ids) order by r.id for update;
  return query select * from drover.move_runs(
    array(select (e.run_id, e.node, e.item, e.state)::drover.step_ending from unnest(run_ids, nodes, items, states) e(run_id, node, item, state)),
    '{}', run_ids
  );
end $$;

-- Tells up to `batch` parents of the endings of their child runs.
create function drover.pass_on_run_endings(batch int) returns setof drover.step_job
language plpgsql volatile
set search_path = drover, pg_temp
as $$
declare
  told record;
begin
  with gone as (
    delete from drover.run_ending
    where id = any(array(select id from drover.run_ending order by id limit batch for update skip locked))
    returning *
  )
  select array_agg(run_id) as run_ids, array_agg(node) as nodes, array_agg(item) as items, array_agg(state) as states
  into told
  from gone;
  if told.run_ids is null then return; end if;
  return query select * from drover.advance(told.run_ids, told.nodes, told.items, told.states);
end $$;

-- Starts runs. One that exists, finished or not, stays as it is. Returns the jobs that were added.
create function drover.start_runs(ids uuid[], workflow_ids int[], inputs text[], priorities int[], timeouts double precision[], options json[])
returns setof drover.step_job
language plpgsql volatile
set search_path = drover, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
  added drover.run[];
begin
  with inserted as (
    insert into drover.run as r (id, workflow_id, open, input, priority, expires_at, options)
    select g.id, g.workflow_id, 1, g.input::json, coalesce(g.priority, 0),
      now() + coalesce(g.timeout_ms, w.timeout_ms) * interval '1 millisecond', g.options
    from unnest(ids, workflow_ids, inputs, priorities, timeouts, options) as g(id, workflow_id, input, priority, timeout_ms, options)
    join drover.workflow w on w.id = g.workflow_id
    order by g.id
    on conflict (id) do nothing
    returning r
  )
  select array_agg(r) into added from inserted;
  if added is null then return; end if;
  return query select * from drover.move_runs(
    '{}', array(select d from unnest(added) r, unnest(drover.first_steps(r)) d), array(select (r).id from unnest(added) r)
  );
end $$;

-- A JSON template {"texts", "sources"} as it is stored.
create function drover.template_of(given json) returns drover.template
language sql immutable as $$
  select (
    array(select value from json_array_elements_text(given->'texts')),
    (
      select array_agg((
        s->>'source', (s->>'node')::int, array(select value from json_array_elements_text(s->'path'))
      )::drover.value_source order by place)
      from json_array_elements(given->'sources') with ordinality as listed(s, place)
    )
  )::drover.template
  where json_typeof(given) = 'object'
$$;

-- Stores a workflow, whose nodes and edges the server has checked. Returns the id of the version.
create function drover.register_workflow(wanted text, content_hash text, definition json, graph json) returns int
language plpgsql volatile as $$
declare
  made int;
begin
  -- versions of a name are numbered one after the other
  perform pg_advisory_xact_lock(hashtext('drover.register_workflow'), hashtext(wanted));
  select w.id into made from drover.workflow w where w.name = wanted and w.hash = content_hash;
  if made is not null then return made; end if;
  insert into drover.workflow (name, version, hash, definition, fails_fast, timeout_ms, output)
  select wanted, coalesce(max(w.version), 0) + 1, content_hash, register_workflow.definition, (graph->>'failsFast')::boolean,
    (graph->>'timeoutMs')::double precision, drover.template_of(graph->'output')
  from drover.workflow w
  where w.name = wanted
  returning id into made;
  insert into drover.node (
    workflow_id, n, name, role, kind, undoes, target, queue, priority, options, input, over, concurrency, tolerated,
    tolerated_percent, in_degree, continues_on_failure, condition, condition_input
  )
  select made, n, name, role, kind, undoes, target, queue, priority, options, drover.template_of(input),
    drover.template_of(over), concurrency, tolerated, tolerated_percent, in_degree, continues_on_failure, condition::jsonpath,
    drover.template_of(condition_input)
  from json_to_recordset(graph->'nodes') as node(
    n int, name text, role text, kind text, undoes int, target text, queue text, priority smallint, options text, input json,
    over json, concurrency int, tolerated int, tolerated_percent double precision, in_degree int,
    continues_on_failure boolean, condition text, condition_input json
  );
  insert into drover.edge (workflow_id, parent, child, on_state)
  select made, parent, child, "on" from json_to_recordset(graph->'edges') as edge(parent int, child int, "on" text);
  return made;
end $$;

-- Starts a run in the caller's transaction and returns its id. Workers find its first jobs by polling once the transaction
-- commits.
create function drover.start_run(workflow text, input json default 'null', options json default '{}') returns uuid
language plpgsql volatile security definer
set search_path = drover, pg_temp
as $$
declare
  run_id uuid;
  wanted_version int;
  found int;
begin
  if json_typeof(coalesce(options, '{}')) <> 'object' then
    return drover.refuse('options', 'a JSON object', options::text, null::uuid);
  end if;
  perform drover.refuse_unknown_fields('options', coalesce(options, '{}'), '{id,version,priority,timeout}');
  run_id := drover.checked_id(options->'id', null, null);
  wanted_version := drover.checked_int('version', options->'version', 1, 2147483647);
  select w.id into found
  from drover.workflow w
  where w.name = start_run.workflow and (wanted_version is null or w.version = wanted_version)
  order by w.version desc
  limit 1;
  if found is null then
    raise exception 'drover: workflow: there is no % "%"',
      coalesce(format('version %s of workflow', wanted_version), 'workflow'), left(start_run.workflow, 200)
      using errcode = 'invalid_parameter_value';
  end if;
  perform drover.start_runs(
    array[run_id], array[found], array[drover.checked_payload(coalesce(input::text, 'null'))],
    array[drover.checked_int('priority', options->'priority', -drover.job_limit('priority'), drover.job_limit('priority'))],
    array[drover.checked_duration('timeout', options->'timeout')], null
  );
  return run_id;
end $$;
