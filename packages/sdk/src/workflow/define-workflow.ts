/**
 * A workflow, declared in code: its function says once which steps there are and what they pass on. What it returns is the
 * output of a run. It is called when the workflow is defined, never by a run: the definition is JSON.
 */
import {
  DroverError,
  graphOf,
  invalidInput,
  LIMITS,
  type NewWorkflow,
  nameSchema,
  newWorkflowSchema,
} from '@drover/protocol';
import { isJobDefinition, JOB, type JobDefinition } from '../job-definition.js';
import { refuse, refuseUnknownOptions } from '../options.js';
import { isStandardSchema } from '../standard-schema.js';
import { type Filled, type Ref, refTo, STEP, templateOf } from './reference.js';
import { type GivenOptions, STEP_JOB_OPTION_NAMES, stepFields } from './step-fields.js';
import {
  type DefineWorkflowOptions,
  isWorkflowDefinition,
  type StepHandle,
  WORKFLOW,
  type WorkflowContext,
  type WorkflowDefinition,
} from './workflow-definition.js';

type StepJson = NewWorkflow['steps'][string];
type ExtraJson = NonNullable<NewWorkflow['finally']>;

export function defineWorkflow<Input = unknown, Output = unknown>(
  options: DefineWorkflowOptions<Input>,
  build: (context: WorkflowContext<Input>) => Output,
): WorkflowDefinition<Input, Filled<Output>> {
  refuseUnknownOptions('defineWorkflow', options, ['name', 'input', 'failFast', 'timeout']);
  const { name, input, failFast, timeout } = options;
  if (!nameSchema.safeParse(name).success) {
    refuse('defineWorkflow', 'name', name, 'a name of letters, digits and _ . : / @ -');
  }
  if (input !== undefined && !isStandardSchema(input)) {
    refuse('defineWorkflow', 'input', input, 'a Standard Schema (zod, valibot, arktype, …)');
  }
  if (typeof build !== 'function') refuse('defineWorkflow', 'function', build, 'a function that makes the steps');
  const builder = new Builder();
  // Sound: the context is made of proxies and of methods whose types only the compiler reads.
  const output: unknown = build(builder.context() as unknown as WorkflowContext<Input>);
  if (output instanceof Promise) refuse('defineWorkflow', 'function', output, 'a function that is not async');
  const definition = JSON.parse(JSON.stringify({ ...builder.definition(output), failFast, timeout })) as NewWorkflow;
  check(name, definition);
  return Object.freeze({ name, input, definition, [WORKFLOW]: { uses: [...builder.uses] } });
}

/** As the server will check it. */
function check(name: string, definition: NewWorkflow): void {
  const parsed = newWorkflowSchema.safeParse(definition);
  try {
    if (!parsed.success) throw invalidInput(parsed.error, definition);
    graphOf(parsed.data);
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    throw new DroverError(error.code, `defineWorkflow ${name}: ${error.message}`, error.details);
  }
}

class Builder {
  readonly uses = new Set<WorkflowDefinition>();
  readonly #steps = new Map<string, StepJson>();
  readonly #extra: { onFailure?: ExtraJson; finally?: ExtraJson } = {};

  context(): object {
    return {
      ...{ input: this.#ref('input'), run: this.#ref('run'), error: this.#ref('error') },
      step: (name: string, body: unknown, input?: unknown, options?: GivenOptions) =>
        this.#step(name, body, input, options, {}),
      map: (name: string, list: unknown, body: unknown, input: unknown, options?: GivenOptions) => {
        if (typeof input !== 'function')
          refuse('defineWorkflow', `steps.${name}.input`, input, 'a function of the item');
        const over = templateOf(list, `steps.${name}.over`, this);
        return this.#step(name, body, input(this.#ref('item'), this.#ref('index')), options, { over });
      },
      first: (name: string, branches: readonly StepHandle[], options: GivenOptions = {}) =>
        this.#add(name, {
          first: branches.map((branch) => branch.name),
          ...stepFields(`steps.${name}`, options, ['if'], this),
        }),
      onFailure: (job: unknown, input?: unknown, options?: GivenOptions) => this.#end('onFailure', job, input, options),
      finally: (job: unknown, input?: unknown, options?: GivenOptions) => this.#end('finally', job, input, options),
    };
  }

  definition(output: unknown): NewWorkflow {
    const steps = Object.fromEntries(this.#steps);
    return { steps, ...this.#extra, ...(output !== undefined && { output: templateOf(output, 'output', this) }) };
  }

  #ref(...keys: string[]): Ref {
    return refTo(this, keys);
  }

  #step(name: string, body: unknown, input: unknown, options: GivenOptions = {}, map: { over?: unknown }): StepHandle {
    const field = `steps.${name}`;
    const flow = ['after', 'if', 'continueOnFailure', ...('over' in map ? ['concurrency', 'tolerate'] : [])];
    const filled = { ...(input !== undefined && { input: templateOf(input, `${field}.input`, this) }), ...map };
    if (isWorkflowDefinition(body)) {
      this.uses.add(body);
      return this.#add(name, { workflow: body.name, ...filled, ...stepFields(field, options, flow, this) });
    }
    const job = this.#job(field, body, options);
    const handle = this.#add(name, {
      ...job,
      ...filled,
      ...stepFields(field, options, flow, this, STEP_JOB_OPTION_NAMES),
    });
    const undo = (undoJob: unknown, undoInput?: unknown, undoOptions?: GivenOptions) => {
      const step = this.#steps.get(name) as StepJson;
      if (step.undo !== undefined)
        throw new DroverError('invalid_request', `defineWorkflow: ${field} has an undo already`);
      step.undo = this.#extraJob(`${field}.undo`, undoJob, undoInput, undoOptions);
      return withUndo;
    };
    const withUndo = { ...handle, undo };
    return withUndo;
  }

  #add(name: string, step: StepJson): StepHandle {
    if (this.#steps.has(name)) {
      throw new DroverError('invalid_request', `defineWorkflow: there are two steps with the name "${name}"`);
    }
    if (this.#steps.size >= LIMITS.workflowSteps) {
      throw new DroverError('invalid_request', `defineWorkflow: expected at most ${LIMITS.workflowSteps} steps`);
    }
    this.#steps.set(name, step);
    return Object.assign({ name, output: this.#ref(name, 'output') }, { [STEP]: name });
  }

  #end(role: 'onFailure' | 'finally', job: unknown, input: unknown, options: GivenOptions | undefined): void {
    if (this.#extra[role] !== undefined)
      throw new DroverError('invalid_request', `defineWorkflow: ${role} is given twice`);
    this.#extra[role] = this.#extraJob(role, job, input, options);
  }

  #extraJob(field: string, job: unknown, input: unknown, options: GivenOptions = {}): ExtraJson {
    stepFields(field, options, [], this, STEP_JOB_OPTION_NAMES);
    const filled = input === undefined ? {} : { input: templateOf(input, `${field}.input`, this) };
    return { ...this.#job(field, job, options), ...filled };
  }

  /** With all options of its definition, so that a worker of another version changes nothing. */
  #job(field: string, job: unknown, given: GivenOptions): Required<Pick<ExtraJson, 'type' | 'options' | 'complete'>> {
    if (!isJobDefinition(job)) refuse('defineWorkflow', field, job, 'the return value of defineJob or defineWorkflow');
    const { type, complete: _, ...defaults } = (job as JobDefinition)[JOB].defaults;
    const own = STEP_JOB_OPTION_NAMES.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]));
    return { type, options: { ...defaults, ...Object.fromEntries(own) }, complete: true };
  }
}
