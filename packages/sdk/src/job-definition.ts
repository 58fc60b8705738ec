/**
 * The types of a job: its definition, the context of its handler and the options of an enqueue. They share one file
 * because they refer to each other: a handler enqueues children, which are named by their definitions.
 */
import type { JobDefaultsInput, JobOptionsInput, JobRun, NewJob } from '@drover/protocol';
import type { Snooze } from './errors.js';
import type { ProcessIsolation } from './isolation-option.js';
import type { LogFields } from './logger.js';
import type { StandardSchema } from './standard-schema.js';

/**
 * Where a definition keeps what only the SDK reads. The symbol is registered for the process: a worker module may
 * bring its own copy of this package (a TypeScript module does), and its definitions must be recognised.
 */
export const JOB: unique symbol = Symbol.for('@drover/sdk job');

export type JobInternals = {
  /** Undefined: the handler runs in the worker's process. */
  readonly isolation: ProcessIsolation | undefined;
  /** Parsed: durations are in milliseconds. */
  readonly defaults: Readonly<Omit<NewJob, 'id' | 'payload' | 'delay' | 'runAt' | 'expiresAt'>>;
  /** The defaults as the inside of a JSON object, so that an enqueue only adds its id and payload. */
  readonly encodedDefaults: string;
  /** URL of the module that exports the job. The process of an isolated handler loads it from there. */
  readonly module?: string | undefined;
  /** URL of a module that must be loaded before `module`. */
  readonly loader?: string | undefined;
  /** The job of the function given as `onFailure`. The worker that takes this job takes it too. */
  readonly follower?: RunnableJob | undefined;
};

/**
 * What `defineJob` returns. `Input` is what an enqueue takes, `Result` what a wait for the result returns. `Output`
 * is the payload that the handler gets, `ResultInput` what it returns. The last two differ from the first two only if
 * a schema transforms; only `defineJob` and `handle` use them.
 */
export type JobDefinition<Input = unknown, Result = unknown, Output = unknown, ResultInput = unknown> = {
  readonly type: string;
  readonly payload: StandardSchema<Input, Output> | undefined;
  readonly result: StandardSchema<ResultInput, Result> | undefined;
  readonly [JOB]: JobInternals;
};

export type RunJob<Output, ResultInput> = (
  context: JobContext<Output>,
) => Promise<ResultInput | Snooze> | ResultInput | Snooze;

/** A definition with its handler, from `defineJob` with `run` or from `handle`. Workers take these. */
export type RunnableJob = JobDefinition & { readonly run: (context: JobContext<never>) => unknown };

/** A definition, or the name of a type that is defined elsewhere. */
export type JobReference<Input = unknown, Result = unknown> = JobDefinition<Input, Result> | string;

export type JobDefaults = JobDefaultsInput;

/** Options of one job. They override the definition's defaults. */
export type EnqueueOptions = JobOptionsInput;

/** One of many jobs to add at once. */
export type JobToAdd = { job: JobReference; payload?: unknown; options?: EnqueueOptions | undefined };

/** Many jobs to add at once: for each job type a `JobToAdd` with a payload of that type. */
export type JobsToAdd<References extends readonly JobReference[]> = {
  [Index in keyof References]: { job: References[Index]; options?: EnqueueOptions | undefined } & PayloadField<
    InputOf<References[Index]>
  >;
};

type InputOf<Reference> = Reference extends JobDefinition<infer Input> ? Input : unknown;

/** The payload is optional where its type allows `undefined`. */
export type PayloadField<Input> = undefined extends Input
  ? { payload?: NoInfer<Input> | undefined }
  : { payload: NoInfer<Input> };

/** As `PayloadField`, as arguments. */
export type PayloadArguments<Input> = undefined extends Input
  ? [payload?: NoInfer<Input>, options?: EnqueueOptions]
  : [payload: NoInfer<Input>, options?: EnqueueOptions];

/** What a handler is given. Its members can be destructured. */
export type JobContext<Payload = unknown> = {
  readonly payload: Payload;
  /** Aborted when the job is cancelled, times out or is lost to another worker, and when the worker must stop. */
  readonly signal: AbortSignal;
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** The first attempt is 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Grows with every start of this job. Pass it to a store that refuses writes with a lower number. */
  readonly fence: number;
  /** The same for all attempts of this job. Pass it to services that recognise repeated calls. */
  readonly idempotencyKey: string;
  /** The schedule that created this job and its nominal time. Undefined for other jobs. */
  readonly occurrence: { readonly schedule: string; readonly nominalAt: string } | undefined;
  /** The run of a workflow, the step that this job is, and its place in a map. Undefined for other jobs. */
  readonly run: JobRun | undefined;
  readonly log: JobLog;
  /** Reports progress. Only the latest value is kept; it is sent a few times per second. */
  readonly progress: (value: unknown) => void;
  /** Adds a job that is created only if this job succeeds. */
  readonly enqueue: EnqueueChild;
};

export type EnqueueChild = <Input>(
  job: JobReference<Input>,
  ...rest: PayloadArguments<Input>
) => { readonly id: string };

/** A log line, optionally with fields of its own. The job's fields are added. */
export type JobLogMethod = {
  (message: string): void;
  (fields: LogFields, message: string): void;
};

export type JobLog = {
  readonly debug: JobLogMethod;
  readonly info: JobLogMethod;
  readonly warn: JobLogMethod;
  readonly error: JobLogMethod;
};

/** A definition with nothing but a type. */
export function plainDefinition<Input = unknown, Result = unknown>(type: string): JobDefinition<Input, Result> {
  const internals = { isolation: undefined, defaults: { type }, encodedDefaults: `"type":${JSON.stringify(type)}` };
  return { type, payload: undefined, result: undefined, [JOB]: internals };
}

export function isJobDefinition(value: unknown): value is JobDefinition {
  return typeof value === 'object' && value !== null && JOB in value;
}

export function isRunnableJob(value: unknown): value is RunnableJob {
  return isJobDefinition(value) && 'run' in value && typeof value.run === 'function';
}
