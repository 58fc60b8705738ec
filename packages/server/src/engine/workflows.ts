/** The use cases of workflows and runs, for the API and every other caller. */
import {
  DroverError,
  isUuid,
  type ListRunsQuery,
  type NewRun,
  type ParsedWorkflow,
  type Run,
  type RunWithSteps,
  type Workflow,
} from '@drover/protocol';
import { audited, digestOf } from '../access/audit.js';
import type { Caller } from '../access/principal.js';
import type { Database } from '../db/database.js';
import type { Publish } from '../lifecycle/publish.js';
import { findRun, findRunWithSteps, listRuns } from '../workflows/find-run.js';
import { findWorkflow, listWorkflows } from '../workflows/find-workflow.js';
import { registerWorkflow } from '../workflows/register-workflow.js';
import { type RunLimits, repeatRun, retryRun, startRun } from '../workflows/start-run.js';
import { cancelRun, moveStoppedRuns } from '../workflows/stop-runs.js';

type Page<Item> = { items: Item[]; nextCursor: string | null };

/** Every method throws DroverError: workflow_not_found, run_not_found, wrong_state, invalid_request. */
export type WorkflowEngine = {
  list(query: { limit: number; cursor?: string | undefined }): Promise<Page<Workflow>>;
  get(name: string, version: number | undefined): Promise<Workflow & { definition: unknown }>;
  put(name: string, workflow: ParsedWorkflow, by: Caller): Promise<Workflow>;
  start(run: NewRun, by: Caller): Promise<Run>;
  listRuns(query: ListRunsQuery): Promise<Page<Run>>;
  getRun(id: string): Promise<RunWithSteps>;
  cancel(id: string, by: Caller): Promise<Run>;
  retry(id: string, by: Caller): Promise<Run>;
  repeat(id: string, from: string, as: string | undefined, by: Caller): Promise<Run>;
};

export type WorkflowEngineDeps = {
  db: Database;
  serverId: string;
  limits: RunLimits;
  publish: Publish;
};

export function createWorkflowEngine({ db, serverId, limits, publish }: WorkflowEngineDeps): WorkflowEngine {
  const { bulk, control, reads } = db;
  return {
    async list({ limit, cursor }) {
      const { items, hasMore } = await listWorkflows(reads, cursor ?? '', limit);
      return { items, nextCursor: hasMore ? (items.at(-1) as Workflow).name : null };
    },
    get: (name, version) => findWorkflow(reads, name, version),
    put: (name, given, by) =>
      audited(bulk, by, async (tx, note) => {
        const { workflow, isNew } = await registerWorkflow(tx, name, given);
        if (isNew) note({ target: `workflow ${name}`, after: { version: workflow.version, steps: workflow.steps } });
        return workflow;
      }),

    async start(run, by) {
      const { id, changes } = await audited(bulk, by, async (tx, note) => {
        const started = await startRun(tx, run, limits);
        const input = digestOf(JSON.stringify(run.input ?? null));
        if (started.isNew) note({ target: started.id, after: { workflow: run.workflow, input } });
        return started;
      });
      publish(changes);
      return findRun(bulk, id);
    },
    async listRuns({ cursor, ...query }) {
      if (cursor !== undefined && !isUuid(cursor)) {
        const message = `cursor: expected the nextCursor of this list, got ${JSON.stringify(cursor)}`;
        throw new DroverError('invalid_cursor', message);
      }
      return listRuns(reads, { ...query, cursor });
    },
    getRun: (id) => findRunWithSteps(reads, id),

    async cancel(id, by) {
      await audited(control, by, async (tx, note) => {
        if (await cancelRun(tx, id)) note({ target: id, after: { ending: 'cancelled' } });
      });
      publish(await moveStoppedRuns(control, serverId));
      return findRun(control, id);
    },
    async retry(id, by) {
      const changes = await audited(control, by, (tx, note) => {
        note({ target: id, after: { state: 'running' } });
        return retryRun(tx, id);
      });
      publish(changes);
      return findRun(control, id);
    },
    async repeat(id, from, as, by) {
      const started = await audited(bulk, by, async (tx, note) => {
        const repeated = await repeatRun(tx, id, from, as);
        if (repeated.isNew) note({ target: repeated.id, after: { repeats: id, from } });
        return repeated;
      });
      publish(started.changes);
      return findRun(bulk, started.id);
    },
  };
}
