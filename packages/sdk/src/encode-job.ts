/**
 * Encodes a definition, a payload and options as the JSON of one new job. The client, children of handlers and the
 * transactional enqueue all use it, so the same call means the same job.
 *
 * The schema checks the payload as JSON, which is what the worker gets: a Date is a string there. The payload is sent as
 * given. Only the worker's run of the schema transforms it, so a transform happens once.
 */
import { createHash } from 'node:crypto';
import {
  type BulkJob,
  DroverError,
  type FieldIssue,
  idOfKey,
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
  plainDefinition,
} from './job-definition.js';
import { type Json, toJson } from './json.js';
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
  const json = toJson(payload, 'payload');
  const checked = checkPayload(definition, json, payload, 'payload');
  if (checked instanceof Promise) return checked.then(() => encodeChecked(definition, json, options));
  return encodeChecked(definition, json, options);
}

/** Encodes one of many jobs. Its errors say which one. */
export function encodeJobAt(jobs: readonly JobToAdd[], index: number): EncodedJob | Promise<EncodedJob> {
  const { job, payload, options } = jobs[index] as JobToAdd;
  const fail = (error: unknown): never => {
    throw error instanceof DroverError ? atPlace(error, index) : error;
  };
  try {
    const encoded = encodeJob(job, payload, options);
    return encoded instanceof Promise ? encoded.catch(fail) : encoded;
  } catch (error) {
    return fail(error);
  }
}

function atPlace({ code, message, details }: DroverError, index: number): DroverError {
  const place = `jobs[${index}]`;
  const issues = (details as { issues?: readonly FieldIssue[] } | undefined)?.issues ?? [];
  const placed = issues.map((issue) => ({ ...issue, field: `${place}.${issue.field}` }));
  return new DroverError(code, `${place}: ${message}`, { issues: placed });
}

/** Throws, or returns a promise that rejects, if the payload does not match. `field` names it in the error. */
export function checkPayload(definition: JobDefinition, json: Json, given: unknown, field: string): unknown {
  return definition.payload === undefined ? undefined : validate(definition.payload, json.value, field, given);
}

/** The whole job as one JSON object. */
export function jobText({ id, head, payload }: EncodedJob): string {
  return `{"id":"${id}",${head},"payload":${payload}}`;
}

export function definitionOf<Input, Result>(reference: JobReference<Input, Result>): JobDefinition<Input, Result> {
  if (isJobDefinition(reference)) return reference;
  if (!nameSchema.safeParse(reference).success) refuse('enqueue', 'type', reference, EXPECTED_REFERENCE);
  return plainDefinition(reference);
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
  { text }: Json,
  options: EnqueueOptions | undefined,
): EncodedJob {
  if (options !== undefined) return encodeWithOptions(definition, text, options);
  return { id: newId(), definition, head: definition[JOB].encodedDefaults, payload: text };
}

function encodeWithOptions(definition: JobDefinition, payload: string, options: EnqueueOptions): EncodedJob {
  refuseUnknownOptions('enqueue', options, JOB_OPTION_NAMES);
  const given = { ...definition[JOB].defaults, ...withoutUndefined(options) };
  const parsed = newJobSchema.safeParse(given);
  if (!parsed.success) throw invalidInput(parsed.error, given);
  const { id, ...job } = parsed.data;
  const keyed = job.idempotencyKey === undefined ? undefined : idOfKey(job.type, job.idempotencyKey, sha256);
  if (keyed !== undefined && id !== undefined && id !== keyed) {
    refuse('enqueue', 'id', id, `no id beside idempotencyKey, which makes it ${keyed}`);
  }
  return { id: id ?? keyed ?? newId(), definition, head: JSON.stringify(job).slice(1, -1), payload };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** An option given as `undefined` must not hide the definition's default. */
function withoutUndefined(options: EnqueueOptions): Partial<EnqueueOptions> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
