-- Stopping runs, and running parts of them again.

-- The state of each step of a run: its own row, its unfinished job or child run, or the latest that has finished; pending if
-- there is none.
create function drover.step_states(run drover.run) returns table (node int, state text, reason text)
language sql stable as $$
  select n.n,
    case
      when s.state is not null then s.state
      when s.items_to_run is not null then 'running'
      else coalesce(j.state, c.state, h.state, 'pending')
    end,
    s.reason
  from drover.node n
  left join drover.run_step s on s.run_id = run.id and s.node = n.n
  left join (
    select j.node, max(j.state::text) as state from drover.job j where j.run_id = run.id and j.item is null group by j.node
  ) j on j.node = n.n
  left join (
    select distinct on (h.node) h.node, h.state::text as state
    from drover.job_history h
    where h.run_id = run.id and h.item is null and h.finished_at >= run.created_at
    order by h.node, h.finished_at desc
  ) h on h.node = n.n
  left join (
    select distinct on (c.parent_node) c.parent_node, c.state
    from drover.run c
    where c.parent_run = run.id and c.parent_item is null
    order by c.parent_node, c.created_at desc
  ) c on c.parent_node = n.n
  where n.workflow_id = run.workflow_id
$$;

-- These steps of a run, and all behind them: what runs again. A step that failed, and whose failure was handled, is kept.
create function drover.steps_to_repeat(run drover.run, chosen int[]) returns int[]
language sql stable as $$
  with recursive again(node) as (
    select s.node
    from drover.step_states(run) s
    join drover.node n on n.workflow_id = run.workflow_id and n.n = s.node and n.role = 'step'
    where s.node = any(chosen)
      or s.state in ('pending', 'cancelled')
      or s.reason = 'stopped'
      or (s.state = 'failed' and not n.continues_on_failure and not exists (
        select from drover.edge g where g.workflow_id = n.workflow_id and g.parent = n.n and g.on_state = 'failure'
      ))
    union
    select g.child
    from again a
    join drover.edge g on g.workflow_id = run.workflow_id and g.parent = a.node
  )
  select coalesce(array_agg(node), '{}') from again
$$;

-- Forgets these steps, as far as they were, and returns those whose parents have all ended. `states` are those of the steps
-- that are kept.
create function drover.forget_steps(run drover.run, repeated int[], kept_nodes int[], kept_states text[])
returns drover.due_step[]
language plpgsql volatile as $$
declare
  due drover.due_step[];
begin
  delete from drover.run_step s
  using drover.node n
  where s.run_id = run.id and n.workflow_id = run.workflow_id and n.n = s.node and (s.node = any(repeated) or n.role <> 'step');
  with kept as (
    select * from unnest(kept_nodes, kept_states) as k(node, state)
  ), counted as (
    select n.n as node, n.in_degree, n.kind, count(k.node)::int as arrived,
      (count(k.node) filter (where not drover.edge_is_met(g.on_state, k.state, p.continues_on_failure)))::int as unmet,
      min(k.node) filter (where drover.edge_is_met(g.on_state, k.state, p.continues_on_failure)) as met_by
    from drover.node n
    left join drover.edge g on g.workflow_id = n.workflow_id and g.child = n.n
    left join drover.node p on p.workflow_id = n.workflow_id and p.n = g.parent
    left join kept k on k.node = g.parent
    where n.workflow_id = run.workflow_id and n.n = any(repeated)
    group by n.n, n.in_degree, n.kind
  ), joined as (
    insert into drover.run_step (run_id, node, arrived, unmet, met_by)
    select run.id, node, arrived, unmet, met_by from counted where in_degree > 1 and arrived > 0
  )
  select array_agg((run.id, node, case when kind = 'first' then unmet < in_degree else unmet = 0 end)::drover.due_step)
  into due
  from counted
  where arrived = in_degree;
  return coalesce(due, '{}');
end $$;

-- Runs again what has failed in a finished run, was cancelled or never began, with everything behind it. Returns the jobs that
-- were added; the caller has checked that the run can be retried, and holds its lock.
create function drover.retry_run(wanted uuid) returns setof drover.step_job
language plpgsql volatile
set search_path = drover, pg_temp
as $$
declare
  run drover.run;
  repeated int[];
  kept record;
begin
  select * into run from drover.run r where r.id = wanted and r.state in ('failed', 'cancelled') for update;
  if run.id is null then return; end if;
  repeated := drover.steps_to_repeat(run, '{}');
  select array_agg(s.node) as nodes, array_agg(s.state) as states into kept
  from drover.step_states(run) s
  where s.node <> all(repeated);
  update drover.run r
  set state = 'running', open = 1, phase = 0, ending = null, error = null, stopped_at = null, finished_at = null, output = null,
    tries = r.tries + 1,
    expires_at = case when r.expires_at > now() then r.expires_at else now() + w.timeout_ms * interval '1 millisecond' end
  from drover.workflow w
  where r.id = wanted and w.id = r.workflow_id
  returning r.* into run;
  return query select * from drover.move_runs(
    '{}', drover.forget_steps(run, repeated, kept.nodes, kept.states), array[wanted]
  );
end $$;

-- A new run that repeats another from a step on. It has the outputs of the steps that are kept. Returns the jobs that were
-- added.
create function drover.repeat_run(new_id uuid, wanted uuid, chosen int) returns setof drover.step_job
language plpgsql volatile
set search_path = drover, pg_temp
as $$
declare
  earlier drover.run;
  run drover.run;
  repeated int[];
  kept record;
begin
  select * into earlier from drover.run r where r.id = wanted;
  insert into drover.run (id, workflow_id, open, input, priority, base_run, expires_at)
  select new_id, earlier.workflow_id, 1, earlier.input, earlier.priority, wanted, now() + w.timeout_ms * interval '1 millisecond'
  from drover.workflow w
  where w.id = earlier.workflow_id
  on conflict (id) do nothing
  returning * into run;
  if run.id is null then return; end if;
  repeated := drover.steps_to_repeat(earlier, array[chosen]);
  select array_agg(s.node) as nodes, array_agg(s.state) as states into kept
  from drover.step_states(earlier) s
  join drover.node n on n.workflow_id = earlier.workflow_id and n.n = s.node and n.role = 'step'
  where s.node <> all(repeated);
  insert into drover.run_step (run_id, node, state, reason, met_by, kept_from)
  select new_id, k.node, k.state, s.reason, s.met_by, coalesce(s.kept_from, wanted)
  from unnest(kept.nodes, kept.states) as k(node, state)
  left join drover.run_step s on s.run_id = wanted and s.node = k.node;
  return query select * from drover.move_runs(
    '{}', drover.forget_steps(run, repeated, kept.nodes, kept.states), array[new_id]
  );
end $$;
