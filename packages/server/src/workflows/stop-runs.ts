/**
 * Stops runs: by request, when their time is over, and after a failure. A run that is to stop is marked under its lock; its jobs are
 * cancelled afterwards, in statements of their own, because jobs are locked before runs (see 09-workflows.sql). What such
 * a statement misses, the next round finds.
 */
import { DroverError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { cancelJobs } from '../lifecycle/cancel.js';
import type { Change } from '../lifecycle/change.js';
import { runNotFound } from './find-run.js';
import { STEP_JOB_COLUMNS, type StepJobRow, toStepChanges } from './step-changes.js';

const MAY_STOP = `state = 'running' and phase = 0 and ending is distinct from 'cancelled'`;

const cancel = sql('run_cancel')`
update drover.run
set ending = 'cancelled', stopped_at = now()
where id = $1 and ${MAY_STOP}
returning 1`;

const stateOf = sql('run_state')`select state, phase, ending from drover.run where id = $1`;

const expire = sql('run_expire')`
update drover.run r
set ending = 'failed', stopped_at = now(), error = coalesce(r.error, json_build_object('step', null, 'error', json_build_object(
  'name', 'ExpiredError', 'code', 'expired', 'message', 'the run had not finished when it expired at ' || drover.iso(expires_at))))
where id = any(array(
  select id
  from drover.run
  where expires_at <= now() and state = 'running' and phase = 0 and stopped_at is null
  order by id
  limit $1
  for update skip locked
))`;

/** A step that follows a failure, and one whose outcome a person has to say, may end by itself. */
const toStop = sql('run_jobs_to_stop')`
select j.id::text as id
from drover.run r
join drover.job j on j.run_id = r.id
where r.state = 'running' and r.stopped_at is not null and r.phase = 0
  and j.state <> 'unknown' and j.cancel_requested_at is null
  and (r.ending = 'cancelled' or not exists (
    select from drover.edge g where g.workflow_id = r.workflow_id and g.child = j.node and g.on_state <> 'success'
  ))
limit $1`;

const stopChildren = sql('run_stop_children')`
update drover.run
set ending = 'cancelled', stopped_at = now()
where id = any(array(
  select c.id
  from drover.run r
  join drover.run c on c.parent_run = r.id
  where r.state = 'running' and r.stopped_at is not null and r.phase = 0
    and c.state = 'running' and c.phase = 0 and c.ending is distinct from 'cancelled'
  order by c.id
  limit $1
)) and ${MAY_STOP}
returning 1`;

const passOn = sql('run_pass_on_endings')`select ${STEP_JOB_COLUMNS} from drover.pass_on_run_endings($1)`;

const toMove = sql('runs_to_move')`
select exists (select from drover.run where state = 'running' and stopped_at is not null)
  or exists (select from drover.run where state = 'running' and expires_at <= now())
  or exists (select from drover.run_ending) as found`;

const BATCH = 1000;

/** Whether any run is to stop, or has a parent to tell: usually not. */
export async function isAnyRunToMove(db: Runner): Promise<boolean> {
  const [row] = await db.run<{ found: boolean }>(toMove);
  return row?.found ?? false;
}

/** Returns false if it was cancelled before. Throws run_not_found, wrong_state. */
export async function cancelRun(db: Runner, id: string): Promise<boolean> {
  if ((await db.run(cancel, [id])).length > 0) return true;
  const [run] = await db.run<{ state: string; phase: number; ending: string | null }>(stateOf, [id]);
  if (!run) throw runNotFound(id);
  if (run.state === 'cancelled' || run.ending === 'cancelled') return false;
  const what = run.state === 'running' ? 'is ending already' : `is ${run.state}`;
  throw new DroverError('wrong_state', `run ${id} ${what}; only a running run can be cancelled`, {
    id,
    state: run.state,
  });
}

/** One round for all runs: each part is bounded, and what is left is done in the next round. */
export async function moveStoppedRuns(db: Runner, serverId: string): Promise<Change[]> {
  await db.run(expire, [BATCH]);
  await db.run(stopChildren, [BATCH]);
  const jobs = await db.run<{ id: string }>(toStop, [BATCH]);
  const stopped = jobs.length === 0 ? [] : await cancelJobs(db, serverId, jobs.map(({ id }) => id).sort());
  return [...stopped, ...(await passOnRunEndings(db))];
}

/** Child runs that have ended move their parents, whose ending may move theirs. */
async function passOnRunEndings(db: Runner): Promise<Change[]> {
  const changes: Change[] = [];
  for (let depth = 0; depth < 10; depth++) {
    const rows = await db.run<StepJobRow>(passOn, [BATCH]);
    changes.push(...toStepChanges(rows));
    if (rows.length === 0) break;
  }
  return changes;
}
