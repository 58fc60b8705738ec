/**
 * The routes under /workflows and /runs. The steps of a run may be of any queue and type, so these routes are not for tokens
 * that are limited to some.
 */
import type { JobError, Run, RunWithSteps } from '@drover/protocol';
import type { Caller, Principal } from '../access/principal.js';
import type { WorkflowEngine } from '../engine/workflows.js';
import { hiddenError, hiddenJson } from '../queries/hidden.js';
import type { RouteHandlers } from './route-handler.js';

type WorkflowRoutes = Pick<
  RouteHandlers,
  | 'listWorkflows'
  | 'getWorkflow'
  | 'putWorkflow'
  | 'startRun'
  | 'listRuns'
  | 'getRun'
  | 'cancelRun'
  | 'retryRun'
  | 'repeatRun'
>;

export function workflowHandlers(workflows: WorkflowEngine): WorkflowRoutes {
  /** Answers with the run as the caller may see it. */
  async function run(by: Caller, change: () => Promise<Run>): Promise<Run> {
    return visible(await change(), by.principal);
  }

  return {
    listWorkflows: ({ query }) => workflows.list(query),
    async getWorkflow({ params, query, by }) {
      const found = await workflows.get(params.name, query.version);
      return by.principal.payloads ? found : { ...found, definition: hidden(found.definition) };
    },
    putWorkflow: ({ params, body, by }) => workflows.put(params.name, body, by),
    startRun: ({ body, by }) => run(by, () => workflows.start(body, by)),
    async listRuns({ query, by }) {
      const { items, nextCursor } = await workflows.listRuns(query);
      return { items: items.map((item) => visible(item, by.principal)), nextCursor };
    },
    async getRun({ params, by }) {
      return visibleWhole(await workflows.getRun(params.id), by.principal);
    },
    cancelRun: ({ params, by }) => run(by, () => workflows.cancel(params.id, by)),
    retryRun: ({ params, by }) => run(by, () => workflows.retry(params.id, by)),
    repeatRun: ({ params, body, by }) => run(by, () => workflows.repeat(params.id, body.from, body.id, by)),
  };
}

function visible<Some extends Run>(run: Some, { payloads }: Principal): Some {
  if (payloads || run.error === null) return run;
  return { ...run, error: { ...run.error, error: hiddenError(run.error.error as JobError) } };
}

function visibleWhole(run: RunWithSteps, principal: Principal): RunWithSteps {
  if (principal.payloads) return run;
  return {
    ...visible(run, principal),
    ...{ input: hidden(run.input), output: hidden(run.output) },
    steps: run.steps.map((step) =>
      step.error === null ? step : { ...step, error: hiddenError(step.error as JobError) },
    ),
  };
}

function hidden(value: unknown): unknown {
  return value === null ? null : JSON.parse(hiddenJson(JSON.stringify(value)));
}
