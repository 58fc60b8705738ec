/**
 * Encodes a definition, a payload and options as the JSON of one new job. The client, children of handlers and the
 * transactional enqueue all use it, so the same call means the same job.
 *
 * The payload is checked against its schema but sent as given. Only the worker's run of the schema transforms it, so
 * a transform happens once.
 */
import {
  type BulkJob,
  DroverError,
  invalidInput,
  JOB_OPTION_NAMES,
  nameSchema,
  newId,
  newJobSchema,
} from '@drover/protocol';
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

const EXPECTED_REFERENCE = 'the return value of defineJob, or a name of letters, digits and _ . : / @ -';

export type EncodedJob = BulkJob & { definition: JobDefinition };

/** Returns a promise only if the payload's schema is asynchronous. */
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

/** Throws, or returns a promise that rejects, if the payload does not match. */
export function checkPayload(definition: JobDefinition, payload: unknown): unknown {
  return definition.payload === undefined ? undefined : validate(definition.payload, payload, 'payload');
}

/** The whole job as one JSON object. */
export function jobText({ id, head, payload }: EncodedJob): string {
  return `{"id":"${id}",${head},"payload":${payload}}`;
}

export function definitionOf<Input, Result>(reference: JobReference<Input, Result>): JobDefinition<Input, Result> {
  if (isJobDefinition(reference)) return reference;
  if (!nameSchema.safeParse(reference).success) refuse('enqueue', 'type', reference, EXPECTED_REFERENCE);
  const type = JSON.stringify(reference);
  const internals = { isolation: undefined, defaults: { type: reference }, encodedDefaults: `"type":${type}` };
  return { type: reference, payload: undefined, result: undefined, [JOB]: internals };
}

/** The jobs of a call that takes either a list of jobs, or one definition and a list of payloads. */
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

/** Encodes a job whose payload has been checked. */
export function encodeChecked(
  definition: JobDefinition,
  payload: unknown,
  options: EnqueueOptions | undefined,
): EncodedJob {
  const text = payloadText(payload);
  if (options !== undefined) return encodeWithOptions(definition, text, options);
  return { id: newId(), definition, head: definition[JOB].encodedDefaults, payload: text };
}

function encodeWithOptions(definition: JobDefinition, payload: string, options: EnqueueOptions): EncodedJob {
  refuseUnknownOptions('enqueue', options, JOB_OPTION_NAMES);
  const given = { ...definition[JOB].defaults, ...withoutUndefined(options), id: options.id ?? newId() };
  const parsed = newJobSchema.safeParse(given);
  if (!parsed.success) throw invalidInput(parsed.error, given);
  const { id = given.id, ...job } = parsed.data;
  return { id, definition, head: JSON.stringify(job).slice(1, -1), payload };
}

/** An option given as `undefined` must not hide the definition's default. */
function withoutUndefined(options: EnqueueOptions): Partial<EnqueueOptions> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function payloadText(payload: unknown): string {
  try {
    return JSON.stringify(payload) ?? 'null';
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `expected a value that JSON can represent: ${reason}`;
    throw new DroverError('invalid_request', `payload: ${message}`, { issues: [{ field: 'payload', message }] });
  }
}
