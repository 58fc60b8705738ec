/**
 * From a definition, a payload and options to the JSON text of one new job. The client, the handler's
 * children and the transactional enqueue all make their jobs here, so the same call means the same job.
 *
 * The payload is checked against its schema but sent as it was given: the worker's schema run is the one
 * whose output counts, so a transform happens once.
 */
import { type BackoffInput, DroverError, type Duration, invalidInput, newId, newJobSchema } from '@drover/protocol';
import { type AnyJobDefinition, defineJob, type JobDefinition } from './define-job.js';
import { refuseUnknownOptions } from './options.js';
import { validate } from './standard-schema.js';

export type EnqueueOptions = {
  /** A UUID. Enqueuing the same id again is the same job. */
  id?: string | undefined;
  queue?: string | undefined;
  priority?: number | undefined;
  delay?: Duration | undefined;
  /** Instead of `delay`. */
  runAt?: string | Date | undefined;
  maxAttempts?: number | undefined;
  backoff?: BackoffInput | undefined;
  timeout?: Duration | undefined;
  /** Past this moment the whole job is failed, also while it is still queued. */
  expiresAt?: string | Date | undefined;
  /** In place of the definition's tags. */
  tags?: string[] | undefined;
  retention?: Duration | undefined;
  /** What becomes of the job when its worker is lost: run it again, or hold it for a person or a late outcome. */
  onLost?: 'rerun' | 'hold' | undefined;
};

const OPTION_NAMES = [
  'id',
  'queue',
  'priority',
  'delay',
  'runAt',
  'maxAttempts',
  'backoff',
  'timeout',
  'expiresAt',
  'tags',
  'retention',
  'onLost',
] as const;

/** A definition, or the bare name of a type that is defined elsewhere. */
export type JobReference<Input = unknown, Result = unknown> = JobDefinition<Input, Result, unknown, unknown> | string;

/** The payload may be left out where its type allows `undefined`. */
export type PayloadArguments<Input> = undefined extends Input
  ? [payload?: NoInfer<Input>, options?: EnqueueOptions]
  : [payload: NoInfer<Input>, options?: EnqueueOptions];

/** `head` is the job without its payload, as the inside of a JSON object. */
export type EncodedJob = { id: string; definition: AnyJobDefinition; head: string; payload: string | undefined };

/** Definitions made for bare names. Full, it starts afresh: a name costs microseconds to check again. */
const MAX_REMEMBERED_NAMES = 1000;
const rememberedNames = new Map<string, AnyJobDefinition>();

/** A promise only if the payload's schema is asynchronous. */
export function encodeJob(
  reference: JobReference,
  payload: unknown,
  options: EnqueueOptions | undefined,
): EncodedJob | Promise<EncodedJob> {
  const definition = definitionOf(reference);
  const checked = checkPayload(definition, payload);
  if (checked instanceof Promise) return checked.then(() => encodeChecked(definition, payload, options));
  return encodeChecked(definition, payload, options);
}

/** Throws, or answers a promise that rejects, if the payload does not fit. */
export function checkPayload(definition: AnyJobDefinition, payload: unknown): unknown {
  return definition.payload === undefined ? undefined : validate(definition.payload, payload, 'payload');
}

/** The whole job as the body of a request. */
export function jobText(job: EncodedJob): string {
  return job.payload === undefined ? `{${job.head}}` : `{${job.head},"payload":${job.payload}}`;
}

export function definitionOf(reference: JobReference): AnyJobDefinition {
  if (typeof reference !== 'string') return reference;
  const known = rememberedNames.get(reference);
  if (known !== undefined) return known;
  const definition = defineJob({ type: reference });
  if (rememberedNames.size >= MAX_REMEMBERED_NAMES) rememberedNames.clear();
  rememberedNames.set(reference, definition);
  return definition;
}

/** The job, given that its payload has been checked. */
export function encodeChecked(
  definition: AnyJobDefinition,
  payload: unknown,
  options: EnqueueOptions | undefined,
): EncodedJob {
  const text = payloadText(payload);
  if (options !== undefined) return encodeWithOptions(definition, text, options);
  const id = newId();
  return { id, definition, head: `"id":"${id}",${definition.encodedDefaults}`, payload: text };
}

function encodeWithOptions(
  definition: AnyJobDefinition,
  payload: string | undefined,
  options: EnqueueOptions,
): EncodedJob {
  refuseUnknownOptions('enqueue', options, OPTION_NAMES);
  const given = { ...definition.defaults, ...withoutUndefined(options), id: options.id ?? newId() };
  const parsed = newJobSchema.safeParse(given);
  if (!parsed.success) throw invalidInput(parsed.error, given);
  const id = parsed.data.id ?? given.id;
  return { id, definition, head: JSON.stringify(parsed.data).slice(1, -1), payload };
}

/** An option given as `undefined` must not hide the definition's default. */
function withoutUndefined(options: EnqueueOptions): Partial<EnqueueOptions> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function payloadText(payload: unknown): string | undefined {
  try {
    return JSON.stringify(payload);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `expected a value that JSON can hold: ${reason}`;
    throw new DroverError('invalid_request', `payload: ${message}`, { issues: [{ field: 'payload', message }] });
  }
}
