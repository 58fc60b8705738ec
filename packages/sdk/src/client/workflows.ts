/** `client.workflows`: registers and reads the definitions of workflows. `client.start` registers what it starts by itself. */
import type { NewWorkflow, RouteAnswer, Workflow } from '@drover/protocol';
import { refuse } from '../options.js';
import { isWorkflowDefinition, WORKFLOW, type WorkflowDefinition } from '../workflow/workflow-definition.js';
import type { Api } from './api.js';

export type WorkflowPage = RouteAnswer<'listWorkflows'>;
export type WorkflowWithDefinition = RouteAnswer<'getWorkflow'>;

export class Workflows {
  readonly #api: Api;
  /** A definition never changes, so it is registered once. */
  readonly #registered = new WeakMap<WorkflowDefinition, Promise<Workflow>>();

  /** Use `client.workflows`. */
  constructor(api: Api) {
    this.#api = api;
  }

  /**
   * Registers a workflow, and those that its steps run. The same definition again is the same version, another one is the
   * next.
   */
  put(definition: WorkflowDefinition): Promise<Workflow>;
  put(name: string, workflow: NewWorkflow): Promise<Workflow>;
  put(first: WorkflowDefinition | string, workflow?: NewWorkflow): Promise<Workflow> {
    if (typeof first !== 'string') {
      if (!isWorkflowDefinition(first))
        refuse('workflows.put', 'workflow', first, 'the return value of defineWorkflow');
      return this.#putAll(first);
    }
    if (workflow === undefined) refuse('workflows.put', 'workflow', workflow, 'a workflow');
    return this.#api.call('putWorkflow', { params: { name: first }, body: workflow });
  }

  /** The latest version, or the given one. */
  get(name: string, { version }: { version?: number | undefined } = {}): Promise<WorkflowWithDefinition> {
    return this.#api.call('getWorkflow', { params: { name }, query: { version } });
  }

  /** One page, by name. */
  list(page: { limit?: number | undefined; cursor?: string | undefined } = {}): Promise<WorkflowPage> {
    return this.#api.call('listWorkflows', { query: page });
  }

  #putAll(definition: WorkflowDefinition): Promise<Workflow> {
    const known = this.#registered.get(definition);
    if (known !== undefined) return known;
    const registered = this.#putWithUsed(definition);
    this.#registered.set(definition, registered);
    // the next call tries again
    registered.catch(() => this.#registered.delete(definition));
    return registered;
  }

  async #putWithUsed(definition: WorkflowDefinition): Promise<Workflow> {
    for (const used of definition[WORKFLOW].uses) await this.#putAll(used);
    return this.put(definition.name, definition.definition);
  }
}
