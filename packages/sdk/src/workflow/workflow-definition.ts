/** The types of a workflow: its definition, what its function is given, and the options of steps. */
import type { Duration, EdgeState, NewWorkflow } from '@drover/protocol';
import type { EnqueueOptions, JobDefaults, JobDefinition } from '../job-definition.js';
import type { StandardSchema } from '../standard-schema.js';
import type { StepCondition } from './condition.js';
import type { AsJson, Given, Ref, Skippable, Value } from './reference.js';

/** As that of jobs: a module may bring its own copy of this package. */
export const WORKFLOW: unique symbol = Symbol.for('@drover/sdk workflow');

declare const OUTPUT: unique symbol;

/** What `defineWorkflow` returns. `Input` is what a start takes, `Output` what a wait for the result returns. */
export type WorkflowDefinition<Input = unknown, Output = unknown> = {
  readonly name: string;
  readonly input: StandardSchema<Input, unknown> | undefined;
  /** In the format of the API. */
  readonly definition: NewWorkflow;
  readonly [WORKFLOW]: {
    /** The workflows that its steps run. */
    readonly uses: readonly WorkflowDefinition[];
    readonly [OUTPUT]?: Output;
  };
};

export type DefineWorkflowOptions<Input = unknown> = {
  name: string;
  /** Checked when a run is started. */
  input?: StandardSchema<Input, unknown> | undefined;
  /** Whether the other steps stop when one fails. Default: true. */
  failFast?: boolean | undefined;
  /** Limit for a whole run. */
  timeout?: Duration | undefined;
};

/** A step. Its name orders other steps, its output is given to them. */
export type StepHandle<Result = unknown, S = unknown> = {
  readonly name: string;
  readonly output: Ref<Result, S>;
};

/** A step whose job can be undone. */
export type JobStepHandle<Result = unknown, S = unknown> = StepHandle<Result, S> & {
  /** The job that undoes it if the run fails or is cancelled after it has succeeded. */
  undo<Input>(job: JobDefinition<Input>, ...rest: ExtraArguments<Input>): JobStepHandle<Result, S>;
};

export type StepEdge = StepHandle | { readonly step: StepHandle; readonly on?: EdgeState | undefined };

export type StepOrder = {
  /** Steps that it waits for besides those that it refers to. They must have succeeded, unless `on` says otherwise. */
  after?: StepEdge | readonly StepEdge[] | undefined;
  /** It is skipped unless this holds. */
  if?: StepCondition | undefined;
  /** Its failure does not fail the run. Its output is null then. */
  continueOnFailure?: boolean | undefined;
};

/** Options of the jobs of a step. They override those of the job's definition. */
export type StepJobOptions = JobDefaults & Pick<EnqueueOptions, 'delay'>;

export type MapLimits = {
  /** How many items run at the same time. */
  concurrency?: number | undefined;
  /** How many items may fail, or which share of them, such as "5%". Their results are null. */
  tolerate?: number | `${number}%` | undefined;
};

/** What a step runs. */
export type StepBody<Input = unknown, Result = unknown> =
  | JobDefinition<Input, unknown, unknown, Result>
  | WorkflowDefinition<Input, Result>;

/** Runs of workflows have no options of jobs. */
export type StepOptions<Body> = StepOrder & (Body extends JobDefinition ? StepJobOptions : unknown);
export type MapOptions<Body> = StepOptions<Body> & MapLimits;

type InputOf<Body> = Body extends { readonly [WORKFLOW]: unknown }
  ? Body extends WorkflowDefinition<infer Input>
    ? Input
    : never
  : Body extends JobDefinition<infer Input>
    ? Input
    : never;
type ResultOf<Body> = Body extends { readonly [WORKFLOW]: unknown }
  ? Body extends WorkflowDefinition<unknown, infer Output>
    ? Output
    : unknown
  : Body extends JobDefinition<unknown, unknown, unknown, infer Result>
    ? AsJson<Result>
    : unknown;

type Handle<Body, Result, S = unknown> = Body extends JobDefinition ? JobStepHandle<Result, S> : StepHandle<Result, S>;
type NullIf<Options, Name extends string> = Options extends { readonly [Key in Name]: infer On }
  ? On extends false | undefined
    ? never
    : null
  : never;
type SkippableIf<Options> = Options extends { readonly if: object } ? Skippable : unknown;

/** The input is optional where its type allows `undefined`. */
type InputArguments<Input, Options> = undefined extends Input
  ? [input?: Given<Input>, options?: Options]
  : [input: Given<Input>, options?: Options];
type ExtraArguments<Input> = InputArguments<NoInfer<Input>, StepJobOptions>;

/** The first failure that nothing handled. */
type RunFailureValue = { step: string | null; error: { name: string; message: string; code?: string } };

export type WorkflowContext<Input> = {
  readonly input: Ref<AsJson<Input>>;
  readonly run: Ref<{ id: string }>;
  /** Only for `undo`, `onFailure` and `finally`. */
  readonly error: Ref<RunFailureValue | null>;
  /** A job, or a run of another workflow. */
  readonly step: <Body extends StepBody, const Options extends StepOptions<Body> = StepOptions<Body>>(
    name: string,
    body: Body,
    ...rest: InputArguments<InputOf<Body>, Options>
  ) => Handle<Body, ResultOf<Body> | NullIf<Options, 'continueOnFailure'>, SkippableIf<Options>>;
  /** A job, or a run, for each item of a list. Its output is the list of results, in the order of the items. */
  readonly map: <Item, Body extends StepBody, const Options extends MapOptions<Body> = MapOptions<Body>>(
    name: string,
    list: Value<readonly Item[]>,
    body: Body,
    input: (item: Ref<Item>, index: Ref<number>) => Given<InputOf<Body>>,
    options?: Options,
  ) => Handle<
    Body,
    (ResultOf<Body> | NullIf<Options, 'tolerate'>)[] | NullIf<Options, 'continueOnFailure'>,
    SkippableIf<Options>
  >;
  /** Merges branches: it succeeds when one of them has, with the output of that one. */
  readonly first: <Result>(
    name: string,
    branches: readonly StepHandle<Result>[],
    options?: Pick<StepOrder, 'if'>,
  ) => StepHandle<Result>;
  /** The job that runs before a failed run ends. Not after a cancel. */
  readonly onFailure: <Input>(job: JobDefinition<Input>, ...rest: ExtraArguments<Input>) => void;
  /** The job that runs before a run ends, whatever has happened. */
  readonly finally: <Input>(job: JobDefinition<Input>, ...rest: ExtraArguments<Input>) => void;
};

export function isWorkflowDefinition(value: unknown): value is WorkflowDefinition {
  return typeof value === 'object' && value !== null && WORKFLOW in value;
}
