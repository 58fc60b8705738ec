/** Runs for the API and the CLI. */
import { DroverError, type Run, type RunStep, type RunWithSteps } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

/** The columns of a row `r` of drover.run with `w` of drover.workflow. */
const RUN_COLUMNS = `r.id::text as id, w.name as workflow, w.version, r.state, r.ending, r.priority, r.error,
  case when r.parent_run is not null then json_build_object('run', r.parent_run, 'step', (
    select n.name
    from drover.run p
    join drover.node n on n.workflow_id = p.workflow_id and n.n = r.parent_node
    where p.id = r.parent_run
  ), 'item', r.parent_item) end as parent,
  r.base_run::text as repeats, r.tries, drover.iso(r.created_at) as "createdAt", drover.iso(r.finished_at) as "finishedAt",
  drover.iso(r.expires_at) as "expiresAt"`;

const find = sql('find_run')`
select ${RUN_COLUMNS}
from drover.run r
join drover.workflow w on w.id = r.workflow_id
where r.id = $1`;

const findWhole = sql('find_whole_run')`
select ${RUN_COLUMNS}, r.input, r.output
from drover.run r
join drover.workflow w on w.id = r.workflow_id
where r.id = $1`;

/** The job of a step is its unfinished one, else the last that has finished. */
const steps = sql('find_run_steps')`
with wanted as materialized (
  select r as run from drover.run r where r.id = $1
), job as (
  select j.node, j.id, j.attempt, j.started_at, null::timestamptz as finished_at, null::json as error, 1 as is_live
  from drover.job j
  where j.run_id = $1 and j.item is null
  union all
  select h.node, h.id, h.attempt, h.started_at, h.finished_at, h.error, 0
  from drover.job_history h
  where h.run_id = $1 and h.item is null and h.finished_at >= (select (run).created_at from wanted)
), latest as (
  select distinct on (node) * from job order by node, is_live desc, finished_at desc
), child as (
  select distinct on (c.parent_node) c.parent_node as node, c.id, c.created_at, c.finished_at, c.error
  from drover.run c
  where c.parent_run = $1 and c.parent_item is null
  order by c.parent_node, c.created_at desc
)
select n.name, n.role,
  case when n.kind = 'job' then n.target end as type, case when n.kind = 'run' then n.target end as workflow,
  coalesce((
    select json_agg(json_build_object('step', p.name, 'on', e.on_state) order by e.parent)
    from drover.edge e
    join drover.node p on p.workflow_id = e.workflow_id and p.n = e.parent
    where e.workflow_id = n.workflow_id and e.child = n.n
  ), '[]') as after,
  s.state, s.reason, coalesce(own.error, latest.error, child.error) as error,
  latest.id::text as "jobId", child.id::text as "runId", latest.attempt,
  drover.iso(coalesce(latest.started_at, child.created_at)) as "startedAt",
  drover.iso(coalesce(latest.finished_at, child.finished_at)) as "finishedAt",
  case when own.items_to_run is not null then json_build_object(
    'total', own.items, 'running', own.next_item - own.ended_items, 'ended', own.items - own.items_to_run + own.ended_items,
    'failed', own.failed_items
  ) end as items
from wanted
cross join lateral drover.step_states(wanted.run) s
join drover.node n on n.workflow_id = (wanted.run).workflow_id and n.n = s.node
left join drover.run_step own on own.run_id = $1 and own.node = n.n
left join latest on latest.node = n.n
left join child on child.node = n.n
order by n.n`;

const list = sql('list_runs')`
select ${RUN_COLUMNS}
from drover.run r
join drover.workflow w on w.id = r.workflow_id
where ($1::uuid is null or r.id < $1)
  and ($2::text is null or w.name = $2)
  and ($3::text[] is null or r.state = any($3))
  and ($4::uuid is null or r.parent_run = $4)
order by r.id desc
limit $5`;

export function runNotFound(id: string): DroverError {
  return new DroverError('run_not_found', `there is no run ${id}, or its retention is over`, { id });
}

export async function findRun(db: Runner, id: string): Promise<Run> {
  const [row] = await db.run<Run>(find, [id]);
  if (!row) throw runNotFound(id);
  return row;
}

export async function findRunWithSteps(db: Runner, id: string): Promise<RunWithSteps> {
  const [row] = await db.run<Omit<RunWithSteps, 'steps'>>(findWhole, [id]);
  if (!row) throw runNotFound(id);
  return { ...row, steps: await db.run<RunStep>(steps, [id]) };
}

export type ListRuns = {
  workflow?: string | undefined;
  state?: readonly string[] | undefined;
  parent?: string | undefined;
  limit: number;
  /** The last id of the page before. */
  cursor?: string | undefined;
};

/** Newest id first. */
export async function listRuns(
  db: Runner,
  { workflow, state, parent, limit, cursor }: ListRuns,
): Promise<{ items: Run[]; nextCursor: string | null }> {
  const values = [cursor ?? null, workflow ?? null, state ?? null, parent ?? null, limit + 1];
  const rows = await db.run<Run>(list, values);
  const items = rows.slice(0, limit);
  return { items, nextCursor: rows.length > limit ? (items.at(-1) as Run).id : null };
}
