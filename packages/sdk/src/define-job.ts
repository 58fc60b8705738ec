/**
 * A job type, declared once: its name, the schemas of its payload and result, the defaults of its jobs and, where one
 * program both enqueues and runs it, its handler. Everything except the payload is checked here, once, and not at
 * each enqueue.
 */
import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DroverError, invalidInput, JOB_DEFAULT_NAMES, newJobSchema } from '@drover/protocol';
import { type IsolationInput, isolationOption } from './isolation-option.js';
import { isJobDefinition, JOB, type JobDefaults, type JobDefinition, type RunJob } from './job-definition.js';
import { followerOf, followerType, type RunOnFailure } from './on-failure.js';
import { refuse, refuseUnknownOptions } from './options.js';
import { isStandardSchema, type StandardSchema } from './standard-schema.js';

export type DefineJobOptions<Input = unknown, Result = unknown, Output = unknown, ResultInput = unknown> = Omit<
  JobDefaults,
  'onFailure'
> & {
  type: string;
  /** Checked when the job is enqueued, and again by the worker. The handler gets the schema's output. */
  payload?: StandardSchema<Input, Output>;
  /** Checked when the handler returns, and again by a wait for the result, which returns the schema's output. */
  result?: StandardSchema<ResultInput, Result>;
  /** Whether the handler runs in its own process. Default: `'none'`, in the worker's process. */
  isolation?: IsolationInput | undefined;
  /**
   * Called when a job has failed for good: by its last attempt, a permanent error, its expiry, the loss of its workers or
   * a person. It is a job of its own, of the type `<type>/on-failure`. A string is the type of another job.
   */
  onFailure?: RunOnFailure<NoInfer<Input>> | string | undefined;
};

export type HandleOptions = {
  /** `import.meta.url`, or `__filename` in CommonJS, of the module that exports this job. A handler with `isolation` needs it. */
  module?: string | URL | undefined;
};

type HandlerOptions<Input> = HandleOptions & {
  /** The handler of the job that the definition names in `onFailure`. */
  onFailure?: RunOnFailure<Input> | undefined;
};

const OPTION_NAMES = ['type', 'payload', 'result', 'run', 'module', 'isolation', ...JOB_DEFAULT_NAMES] as const;

// The compiler reports the errors of the last overload, so the last one accepts a handler and every option.
export function defineJob<Input = unknown, ResultInput = unknown, Output = Input, Result = ResultInput>(
  options: DefineJobOptions<Input, Result, Output, ResultInput> & { run?: undefined },
): JobDefinition<Input, Result, Output, ResultInput>;
/** With `run` and without a `result` schema, the type of the result is what `run` returns. */
export function defineJob<Input = unknown, Result = unknown, Output = Input>(
  options: DefineJobOptions<Input, Result, Output, Result> &
    HandleOptions & { result?: undefined; run: RunJob<NoInfer<Output>, Result> },
): JobDefinition<Input, Result, Output, Result> & { readonly run: RunJob<Output, Result> };
export function defineJob<Input = unknown, ResultInput = unknown, Output = Input, Result = ResultInput>(
  options: DefineJobOptions<Input, Result, Output, ResultInput> &
    HandleOptions & { run: RunJob<NoInfer<Output>, NoInfer<ResultInput>> },
): JobDefinition<Input, Result, Output, ResultInput> & { readonly run: RunJob<Output, ResultInput> };
export function defineJob(options: DefineJobOptions & HandleOptions & { run?: unknown }): JobDefinition {
  refuseUnknownOptions('defineJob', options, OPTION_NAMES);
  const { payload, result, isolation, run, module, onFailure, ...defaults } = options;
  const given = {
    ...defaults,
    complete: true,
    ...(onFailure === undefined ? {} : { onFailure: followerName(options) }),
  };
  for (const [name, schema] of Object.entries({ payload, result })) {
    if (schema === undefined || isStandardSchema(schema)) continue;
    refuse('defineJob', name, schema, 'a Standard Schema (zod, valibot, arktype, …)');
  }
  const parsed = newJobSchema.safeParse(given);
  if (!parsed.success) {
    const { message, details } = invalidInput(parsed.error, given);
    throw new DroverError('invalid_request', `defineJob: ${message}`, details);
  }
  const definition: JobDefinition = {
    type: parsed.data.type,
    payload,
    result,
    [JOB]: {
      isolation: isolationOption('defineJob', isolation),
      defaults: Object.freeze(parsed.data),
      encodedDefaults: JSON.stringify(parsed.data).slice(1, -1),
      ...(typeof onFailure === 'function' ? { follower: followerOf(followerType(parsed.data.type), onFailure) } : {}),
    },
  };
  if (run !== undefined) return withHandler('defineJob', definition, run, module);
  if (module !== undefined) refuse('defineJob', 'module', module, 'no module without run');
  return Object.freeze(definition);
}

/** Adds a handler to a definition that applications share without one. */
export function handle<Input, Result, Output, ResultInput>(
  definition: JobDefinition<Input, Result, Output, ResultInput>,
  run: RunJob<Output, NoInfer<ResultInput>>,
  options: HandlerOptions<NoInfer<Input>> = {},
): JobDefinition<Input, Result, Output, ResultInput> & { readonly run: RunJob<Output, ResultInput> } {
  refuseUnknownOptions('handle', options, ['module', 'onFailure']);
  if (!isJobDefinition(definition)) refuse('handle', 'definition', definition, 'the return value of defineJob');
  const { module, onFailure } = options;
  return withHandler('handle', onFailure ? withFollower(definition, onFailure) : definition, run, module);
}

function withFollower<Definition extends JobDefinition>(
  definition: Definition,
  onFailure: RunOnFailure<never>,
): Definition {
  if (typeof onFailure !== 'function') refuse('handle', 'onFailure', onFailure, 'a function');
  const { defaults, follower } = definition[JOB];
  // The application that adds a job by this definition says what follows a failure, so a worker alone cannot decide it.
  if (defaults.onFailure === undefined || follower !== undefined) {
    const named = `defineJob({ type: "${definition.type}", onFailure: "${followerType(definition.type)}" })`;
    refuse('handle', 'onFailure', onFailure, `a definition that names the job of this function: ${named}`);
  }
  return { ...definition, [JOB]: { ...definition[JOB], follower: followerOf(defaults.onFailure, onFailure) } };
}

function followerName({ type, onFailure }: Pick<DefineJobOptions, 'type' | 'onFailure'>): unknown {
  return typeof onFailure === 'function' ? followerType(type) : onFailure;
}

function withHandler<Definition extends JobDefinition, Run>(
  where: string,
  definition: Definition,
  run: Run,
  module: string | URL | undefined,
): Definition & { readonly run: Run } {
  if (typeof run !== 'function') refuse(where, 'run', run, 'a function');
  const internals = { ...definition[JOB], ...(module === undefined ? {} : { module: moduleOption(where, module) }) };
  return Object.freeze({ ...definition, run, [JOB]: internals });
}

/** tsx adds it to everything that it loads by `tsImport`. It names an instance inside this process. */
const TSX_NAMESPACE = 'tsx-namespace';

/** The URL of the module. CommonJS knows its modules by their path. */
export function moduleOption(where: string, value: unknown): string {
  const text = typeof value === 'string' && isAbsolute(value) ? pathToFileURL(value).href : String(value);
  if (!URL.canParse(text) || !text.startsWith('file:')) {
    refuse(where, 'module', value, 'the address of a file: import.meta.url, or __filename in CommonJS');
  }
  const url = new URL(text);
  url.searchParams.delete(TSX_NAMESPACE);
  return url.href;
}
