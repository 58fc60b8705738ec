/**
 * From a definition, a payload and options to the JSON text of one new job. The client, the handler's
 * children and the transactional enqueue all make their jobs here, so the same call means the same job.
 *
 * The payload is checked against its schema but sent as it was given: the worker's schema run is the one
 * whose output counts, so a transform happens once.
 */
import { DroverError, invalidInput, nameSchema, newId, newJobSchema } from '@drover/protocol';
import {
  type EnqueueOptions,
  isJobDefinition,
  JOB,
  type JobDefinition,
  type JobReference,
  type JobToAdd,
} from './job-definition.js';
import { refuse, refuseUnknownOptions } from './options.js';
import { validate } from './standard-schema.js';

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

const EXPECTED_REFERENCE = 'what defineJob returns, or a name of letters, digits and _ . : / @ -';

/** `head` is the job without its payload, as the inside of a JSON object. */
export type EncodedJob = { id: string; definition: JobDefinition; head: string; payload: string | undefined };

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
export function checkPayload(definition: JobDefinition, payload: unknown): unknown {
  return definition.payload === undefined ? undefined : validate(definition.payload, payload, 'payload');
}

/** The whole job as the body of a request. */
export function jobText(job: EncodedJob): string {
  return job.payload === undefined ? `{${job.head}}` : `{${job.head},"payload":${job.payload}}`;
}

export function definitionOf<Input, Result>(reference: JobReference<Input, Result>): JobDefinition<Input, Result> {
  if (isJobDefinition(reference)) return reference;
  if (!nameSchema.safeParse(reference).success) refuse('enqueue', 'type', reference, EXPECTED_REFERENCE);
  const type = JSON.stringify(reference);
  const internals = { isolation: undefined, defaults: { type: reference }, encodedDefaults: `"type":${type}` };
  return { type: reference, payload: undefined, result: undefined, [JOB]: internals };
}

/** The jobs of a call that takes a list, or a job and a list of its payloads. */
export function jobsToAdd(
  first: JobReference | readonly JobToAdd[],
  payloads: readonly unknown[],
): readonly JobToAdd[] {
  if (isList(first)) return first;
  const job = definitionOf(first);
  return payloads.map((payload) => ({ job, payload }));
}

function isList(value: JobReference | readonly JobToAdd[]): value is readonly JobToAdd[] {
  return Array.isArray(value);
}

/** The job, given that its payload has been checked. */
export function encodeChecked(
  definition: JobDefinition,
  payload: unknown,
  options: EnqueueOptions | undefined,
): EncodedJob {
  const text = payloadText(payload);
  if (options !== undefined) return encodeWithOptions(definition, text, options);
  const id = newId();
  return { id, definition, head: `"id":"${id}",${definition[JOB].encodedDefaults}`, payload: text };
}

function encodeWithOptions(
  definition: JobDefinition,
  payload: string | undefined,
  options: EnqueueOptions,
): EncodedJob {
  refuseUnknownOptions('enqueue', options, OPTION_NAMES);
  const given = { ...definition[JOB].defaults, ...withoutUndefined(options), id: options.id ?? newId() };
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
