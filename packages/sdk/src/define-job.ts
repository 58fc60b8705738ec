/**
 * A job type, declared once: its name, the form of its payload and result, and the defaults of its jobs.
 * Everything that can be checked is checked here, at once, so that an enqueue has nothing left to check
 * but the payload.
 */
import {
  type BackoffInput,
  DroverError,
  type Duration,
  invalidInput,
  type NewJob,
  newJobSchema,
} from '@drover/protocol';
import { refuse, refuseUnknownOptions } from './options.js';
import { isStandardSchema, type StandardSchema } from './standard-schema.js';
import { type IsolationInput, isolationOption, type ProcessIsolation } from './worker/isolation/isolation-option.js';

export type JobDefaults = {
  queue?: string;
  /** Larger numbers start first. */
  priority?: number;
  /** How often the job may be tried in all. */
  maxAttempts?: number;
  backoff?: BackoffInput;
  /** Limit for one attempt. */
  timeout?: Duration;
  /** How long the finished job is kept, in place of the server's setting. */
  retention?: Duration;
  tags?: string[];
  /**
   * What becomes of a job whose worker is lost while it runs: `rerun` (default) gives it to another worker,
   * `hold` makes it `unknown` until its worker's journal or a person says how it ended. Only `hold` is absolute.
   */
  onLost?: 'rerun' | 'hold';
};

export type DefineJobOptions<Input, Result, Output, ResultInput> = JobDefaults & {
  type: string;
  /** Checked when the job is enqueued, and again by the worker, whose handler gets the schema's output. */
  payload?: StandardSchema<Input, Output>;
  /** Checked when the handler returns, and again by `client.result()`, which gives the schema's output. */
  result?: StandardSchema<ResultInput, Result>;
  /** Whether the handler runs in a process of its own. Default: `'none'`, in the worker's. */
  isolation?: IsolationInput | undefined;
};

/** `Input` is what an enqueue takes, `Output` what the handler gets; likewise `ResultInput` and `Result`. */
export type JobDefinition<Input = unknown, Result = unknown, Output = Input, ResultInput = Result> = {
  readonly type: string;
  readonly payload: StandardSchema<Input, Output> | undefined;
  readonly result: StandardSchema<ResultInput, Result> | undefined;
  /** Undefined: the handler runs in the worker's process. */
  readonly isolation: ProcessIsolation | undefined;
  /** Parsed: durations in milliseconds. */
  readonly defaults: Readonly<Omit<NewJob, 'id' | 'payload' | 'delay' | 'runAt' | 'expiresAt'>>;
  /** The defaults as the inside of a JSON object, so that an enqueue only adds its id and payload. */
  readonly encodedDefaults: string;
};

/** Any definition; the type parameters only ever widen. */
export type AnyJobDefinition = JobDefinition<unknown, unknown, unknown, unknown>;

const OPTION_NAMES = [
  'type',
  'payload',
  'result',
  'isolation',
  'queue',
  'priority',
  'maxAttempts',
  'backoff',
  'timeout',
  'retention',
  'tags',
  'onLost',
] as const;

export function defineJob<Input = unknown, Result = unknown, Output = Input, ResultInput = Result>(
  options: DefineJobOptions<Input, Result, Output, ResultInput>,
): JobDefinition<Input, Result, Output, ResultInput> {
  refuseUnknownOptions('defineJob', options, OPTION_NAMES);
  const { payload, result, isolation, ...given } = options;
  for (const [name, schema] of Object.entries({ payload, result })) {
    if (schema === undefined || isStandardSchema(schema)) continue;
    refuse('defineJob', name, schema, 'a Standard Schema (of zod, valibot, arktype, …)');
  }
  const parsed = newJobSchema.safeParse(given);
  if (!parsed.success) {
    const { message, details } = invalidInput(parsed.error, given);
    throw new DroverError('invalid_request', `defineJob: ${message}`, details);
  }
  return Object.freeze({
    type: parsed.data.type,
    payload,
    result,
    isolation: isolationOption('defineJob', isolation),
    defaults: Object.freeze(parsed.data),
    encodedDefaults: JSON.stringify(parsed.data).slice(1, -1),
  });
}
