-- Workflows: graphs of jobs, and the runs of them.
--
-- Invariants:
-- - a workflow never changes: the same content is the same row, and a run keeps the row that it was started with;
-- - everything about a run is changed under the lock of its row, so a join is reached once and a run ends once. Locks are taken
--   in this order: jobs, then runs by id. A statement that has locked a run never waits for a job;
-- - open counts the unfinished jobs and the unfinished child runs of a running run. When it reaches 0, the statement that
--   took it there starts the next phase or ends the run: no run is ever without something that will move it;
-- - a step that is not due has no row: neither a job nor a row in run_step.

-- Where a value in a template comes from: the input of the run, a step's output, the item of a map …
create type drover.value_source as (source text, node int, path text[]);

-- JSON with gaps: the texts with the values of the sources between them. Without sources it is one text.
create type drover.template as (texts text[], sources drover.value_source[]);

-- One version of a workflow.
create table drover.workflow (
  id int generated always as identity primary key,
  name text collate "C" not null,
  version int not null,
  -- SHA-256 of the definition in its normal form
  hash text collate "C" not null,
  definition json not null,
  -- whether a failure that nothing handles stops the steps beside it
  fails_fast boolean not null,
  output drover.template,
  -- how long a run may take
  timeout_ms double precision,
  registered_at timestamptz not null default now(),
  unique (name, hash),
  unique (name, version)
);

-- A step, or what a workflow does at its end.
create table drover.node (
  workflow_id int not null references drover.workflow,
  n int not null,
  name text collate "C" not null,
  role text not null check (role in ('step', 'undo', 'onFailure', 'finally')),
  -- what it starts: a job, a run of a workflow, or nothing: it merges branches
  kind text not null check (kind in ('job', 'run', 'first')),
  -- the step that an undo belongs to
  undoes int,
  -- the type of the job, or the name of the workflow
  target text collate "C",
  queue text collate "C",
  priority smallint,
  -- the members of a JSON object: the options of its job, and the name of the step
  options text,
  input drover.template,
  -- of a map: its list, how many items may run at the same time, and how many may fail
  over drover.template,
  concurrency int,
  tolerated int,
  tolerated_percent double precision,
  in_degree int not null,
  continues_on_failure boolean not null default false,
  -- a comparison of the values of condition_input
  condition jsonpath,
  condition_input drover.template,
  primary key (workflow_id, n),
  unique (workflow_id, name),
  constraint node_has_a_target check ((kind = 'first') = (target is null)),
  constraint undo_has_a_step check ((role = 'undo') = (undoes is not null))
);

create table drover.edge (
  workflow_id int not null,
  parent int not null,
  child int not null,
  on_state text not null check (on_state in ('success', 'failure', 'always')),
  primary key (workflow_id, parent, child),
  foreign key (workflow_id, parent) references drover.node,
  foreign key (workflow_id, child) references drover.node
);
create index edge_child on drover.edge (workflow_id, child);

create table drover.run (
  id uuid primary key,
  workflow_id int not null references drover.workflow,
  state text not null default 'running' check (state in ('running', 'succeeded', 'failed', 'cancelled')),
  -- 0: the graph; 1: undo; 2: onFailure and finally
  phase smallint not null default 0,
  open int not null,
  -- how it will end, once that is certain; null: it succeeds if nothing fails
  ending text check (ending in ('failed', 'cancelled')),
  -- since when its steps are being stopped
  stopped_at timestamptz,
  -- the first failure that nothing handled
  error json,
  priority smallint not null default 0,
  input json not null,
  output json,
  -- what started it, as the API shows it
  options json,
  parent_run uuid,
  parent_node int,
  parent_item int,
  -- the run that this one repeats from a step on
  base_run uuid,
  depth smallint not null default 1,
  -- how often it was started: once, and with each retry
  tries smallint not null default 1,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  expires_at timestamptz,
  constraint run_moves_on check ((state = 'running') = (open > 0)),
  constraint run_ends_once check ((state = 'running') = (finished_at is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

create index run_workflow on drover.run (workflow_id, id);
create index run_unfinished on drover.run (id) where state = 'running';
create index run_expiry on drover.run (expires_at) where state = 'running' and expires_at is not null;
create index run_stopped on drover.run (stopped_at) where state = 'running' and stopped_at is not null;
create index run_parent on drover.run (parent_run, parent_node, parent_item) where parent_run is not null;
create index run_finished on drover.run (finished_at) where finished_at is not null;

-- What has to be remembered of a step beside its jobs: how far a join or a map is, and how a step without a job ended.
create table drover.run_step (
  run_id uuid not null references drover.run on delete cascade,
  node int not null,
  state text check (state in ('waiting', 'succeeded', 'failed', 'cancelled', 'skipped')),
  -- why it was skipped: 'unmet', 'condition' or 'stopped'
  reason text,
  error json,
  -- a join: its parents that have ended, those whose edge was not met, and the first one whose edge was
  arrived int not null default 0,
  unmet int not null default 0,
  met_by int,
  -- a step of an earlier run that this one repeats from a later step: whose output it has
  kept_from uuid,
  -- a map: the items of its list; those to run, as a retry runs fewer; of these the next to start, and how many have ended and failed
  items int,
  items_to_run int,
  next_item int not null default 0,
  ended_items int not null default 0,
  failed_items int not null default 0,
  -- the place of an undo in the order in which they run
  place bigint,
  primary key (run_id, node)
) with (fillfactor = 70);
create index run_step_undo on drover.run_step (run_id, place) where place is not null and state = 'waiting';

-- The items of maps, as JSON, in chunks, so that a window of them can be started without reading all.
create table drover.run_items (
  run_id uuid not null,
  node int not null,
  chunk int not null,
  -- their places in the list
  indexes int[] not null,
  items json[] not null,
  primary key (run_id, node, chunk),
  foreign key (run_id, node) references drover.run_step on delete cascade
);

-- Endings of child runs that their parents have not been told of. The statement that ends a child cannot lock its parent
-- (runs are locked by id), so this is done by a statement of its own.
create table drover.run_ending (
  id bigint generated always as identity primary key,
  run_id uuid not null,
  node int not null,
  item int,
  state text not null
);

-- The runs whose finished jobs must stay: those that are running, and those whose outputs a running one has kept.
create view drover.needed_run as
select id from drover.run where state = 'running'
union
select s.kept_from
from drover.run r
join drover.run_step s on s.run_id = r.id
where r.state = 'running' and s.kept_from is not null;
