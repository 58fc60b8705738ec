/** Starts runs, retries them, and repeats them from a step on. */
import { DroverError, isTooDeep, LIMITS, type NewRun, newId } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Change } from '../lifecycle/change.js';
import { runNotFound } from './find-run.js';
import { workflowNotFound } from './find-workflow.js';
import { STEP_JOB_COLUMNS, type StepJobRow, toStepChanges } from './step-changes.js';

const version = sql('run_workflow')`
select id from drover.workflow where name = $1 and ($2::int is null or version = $2) order by version desc limit 1`;

const start = sql('run_start')`
select ${STEP_JOB_COLUMNS}
from drover.start_runs(array[$1::uuid], array[$2::int], array[$3], array[$4::int], array[$5::double precision], null)`;

const exists = sql('run_exists')`select exists (select from drover.run where id = $1) as found`;

const lock = sql('run_lock')`
select state, parent_run is not null as "isChild", exists (
  select from drover.run_step s where s.run_id = r.id and s.place is not null and s.state is distinct from 'waiting'
) as "isUndone"
from drover.run r
where id = $1
for update`;

const retry = sql('run_retry')`select ${STEP_JOB_COLUMNS} from drover.retry_run($1)`;

const stepOf = sql('run_step_named')`
select n.n as node, r.state
from drover.run r
left join drover.node n on n.workflow_id = r.workflow_id and n.name = $2 and n.role = 'step'
where r.id = $1`;

const repeat = sql('run_repeat')`select ${STEP_JOB_COLUMNS} from drover.repeat_run($1, $2, $3)`;

export type RunLimits = { payloadLimitBytes: number };
/** `isNew`: not the repetition of a request. */
export type Started = { id: string; isNew: boolean; changes: Change[] };

/** The same id again is the same run. Throws workflow_not_found, payload_too_large. */
export async function startRun(db: Runner, given: NewRun, { payloadLimitBytes: limit }: RunLimits): Promise<Started> {
  const { workflow, id = newId(), priority = null, timeout = null } = given;
  const input = JSON.stringify(given.input ?? null);
  const bytes = Buffer.byteLength(input);
  if (bytes > limit) {
    const message = `input: expected at most ${limit} bytes of JSON, got ${bytes}`;
    throw new DroverError('payload_too_large', message, { field: 'input', limit, bytes });
  }
  if (isTooDeep(input)) {
    throw new DroverError('invalid_request', `input: expected JSON of at most ${LIMITS.payloadDepth} levels`);
  }
  const [row] = await db.run<{ id: number }>(version, [workflow, given.version ?? null]);
  if (!row) throw workflowNotFound(workflow, given.version);
  const [before] = await db.run<{ found: boolean }>(exists, [id]);
  const rows = await db.run<StepJobRow>(start, [id, row.id, input, priority, timeout]);
  return { id, isNew: before?.found !== true, changes: toStepChanges(rows) };
}

/** In a transaction, because it locks the run first. Throws run_not_found, wrong_state. */
export async function retryRun(tx: Runner, id: string): Promise<Change[]> {
  const [run] = await tx.run<{ state: string; isChild: boolean; isUndone: boolean }>(lock, [id]);
  if (!run) throw runNotFound(id);
  if (run.state !== 'failed' && run.state !== 'cancelled') {
    throw wrongState(id, run.state, 'only a failed or cancelled run can be retried');
  }
  if (run.isChild) throw wrongState(id, run.state, 'it is a step of another run: retry that one');
  if (run.isUndone) throw wrongState(id, run.state, 'its steps were undone: start a new run');
  return toStepChanges(await tx.run<StepJobRow>(retry, [id]));
}

/** Throws run_not_found, wrong_state, invalid_request. */
export async function repeatRun(db: Runner, id: string, from: string, as = newId()): Promise<Started> {
  const [found] = await db.run<{ node: number | null; state: string }>(stepOf, [id, from]);
  if (!found) throw runNotFound(id);
  if (found.node === null) {
    const message = `from: run ${id} has no step "${from}"`;
    throw new DroverError('invalid_request', message, { issues: [{ field: 'from', message, value: from }] });
  }
  if (found.state === 'running') throw wrongState(id, found.state, 'only a finished run can be repeated');
  const [before] = await db.run<{ found: boolean }>(exists, [as]);
  const rows = await db.run<StepJobRow>(repeat, [as, id, found.node]);
  return { id: as, isNew: before?.found !== true, changes: toStepChanges(rows) };
}

function wrongState(id: string, state: string, reason: string): DroverError {
  return new DroverError('wrong_state', `run ${id} is ${state}; ${reason}`, { id, state });
}
