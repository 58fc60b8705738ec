/**
 * A job type, declared once: its name, the schemas of its payload and result, the defaults of its jobs and, where one
 * program both enqueues and runs it, its handler. Everything except the payload is checked here, once, and not at
 * each enqueue.
 */
import { DroverError, invalidInput, JOB_DEFAULT_NAMES, newJobSchema } from '@drover/protocol';
import { type IsolationInput, isolationOption } from './isolation-option.js';
import { isJobDefinition, JOB, type JobDefaults, type JobDefinition, type RunJob } from './job-definition.js';
import { refuse, refuseUnknownOptions } from './options.js';
import { isStandardSchema, type StandardSchema } from './standard-schema.js';

export type DefineJobOptions<
  Input = unknown,
  Result = unknown,
  Output = unknown,
  ResultInput = unknown,
> = JobDefaults & {
  type: string;
  /** Checked when the job is enqueued, and again by the worker. The handler gets the schema's output. */
  payload?: StandardSchema<Input, Output>;
  /** Checked when the handler returns, and again by a wait for the result, which returns the schema's output. */
  result?: StandardSchema<ResultInput, Result>;
  /** Whether the handler runs in its own process. Default: `'none'`, in the worker's process. */
  isolation?: IsolationInput | undefined;
};

export type HandleOptions = {
  /** `import.meta.url` of the module that exports this job. A handler with `isolation` needs it. */
  module?: string | URL | undefined;
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
  const { payload, result, isolation, run, module, ...given } = options;
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
  options: HandleOptions = {},
): JobDefinition<Input, Result, Output, ResultInput> & { readonly run: RunJob<Output, ResultInput> } {
  refuseUnknownOptions('handle', options, ['module']);
  if (!isJobDefinition(definition)) refuse('handle', 'definition', definition, 'the return value of defineJob');
  return withHandler('handle', definition, run, options.module);
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

export function moduleOption(where: string, value: unknown): string {
  const text = String(value);
  if (!URL.canParse(text) || !text.startsWith('file:')) {
    refuse(where, 'module', value, 'the URL of a file: import.meta.url');
  }
  const url = new URL(text);
  url.searchParams.delete(TSX_NAMESPACE);
  return url.href;
}
