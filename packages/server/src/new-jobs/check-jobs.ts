/**
 * What a new job must satisfy beyond its schema: the timestamp in its id, the size and depth of its payload, and the JSON
 * Schema of its type if the job was added by name.
 */
import { DroverError, isTooDeep, LIMITS, type NewJob } from '@drover/protocol';
import { afterIdsOf, ID_AHEAD_LIMIT_MS, isVersion7 } from '../base/id-time.js';
import { checkPayloadText } from './check-payload.js';
import { type JobToInsert, keyedId, toJobToInsert } from './job-to-insert.js';
import { type KnownTypes, withDefaults } from './known-types.js';

/** The most bytes that UTF-8 takes for a character of a string. */
const UTF8_BYTES_PER_CHARACTER = 3;

export type NewJobLimits = { payloadLimitBytes: number; nowMs: number; types: KnownTypes };

/** The name of a field of the job in this place; undefined: the request has one job. */
type FieldName = (name: string) => string;

export function checkedJob(job: NewJob, limits: NewJobLimits): JobToInsert {
  return checkedNewJob(job, limits, (name) => name);
}

export function checkedJobs(jobs: readonly NewJob[], limits: NewJobLimits): JobToInsert[] {
  return jobs.map((job, place) => checkedNewJob(job, limits, fieldOf(place)));
}

/** Throws the error of the first job that breaks a rule. */
export function checkJobs(jobs: readonly JobToInsert[], limits: NewJobLimits): void {
  const latestId = afterIdsOf(limits.nowMs + ID_AHEAD_LIMIT_MS);
  for (let place = 0; place < jobs.length; place++) {
    checkJob(jobs[place] as JobToInsert, latestId, limits, fieldOf(place));
  }
}

function fieldOf(place: number): FieldName {
  return (name) => `jobs[${place}].${name}`;
}

function checkedNewJob(given: NewJob, limits: NewJobLimits, field: FieldName): JobToInsert {
  let job: JobToInsert;
  try {
    job = toJobToInsert(withDefaults(given, limits.types));
  } catch (error) {
    // JSON.stringify runs out of stack
    if (error instanceof RangeError) throw tooDeep(field('payload'));
    throw error;
  }
  checkJob(job, afterIdsOf(limits.nowMs + ID_AHEAD_LIMIT_MS), limits, field);
  return job;
}

function checkJob(job: JobToInsert, latestId: string, limits: NewJobLimits, field: FieldName): void {
  const { id, payload } = job;
  if (id > latestId && isVersion7(id)) throw idAhead(id, field('id'));
  const keyed = keyedId(job.type, job.options?.idempotencyKey);
  if (keyed !== undefined && id !== keyed) throw otherId(keyed, id, field('id'));
  const { payloadLimitBytes: limit } = limits;
  if (UTF8_BYTES_PER_CHARACTER * payload.length > limit) {
    const bytes = Buffer.byteLength(payload);
    if (bytes > limit) throw tooLarge(field('payload'), limit, bytes);
  }
  if (isTooDeep(payload)) throw tooDeep(field('payload'));
  if (!job.complete) checkPayloadText(limits.types.get(job.type), payload, field('payload'));
}

function tooLarge(field: string, limit: number, bytes: number): DroverError {
  const message = `${field}: expected at most ${limit} bytes of JSON, got ${bytes}`;
  return new DroverError('payload_too_large', message, { field, limit, bytes });
}

function tooDeep(field: string): DroverError {
  return invalid(field, `expected JSON of at most ${LIMITS.payloadDepth} levels`);
}

function idAhead(id: string, field: string): DroverError {
  const message = 'its time is more than a day ahead: check the clock of the machine that created it';
  return invalid(field, message, JSON.stringify(id));
}

/** The SDK sends the key and the id made from it. */
function otherId(keyed: string, id: string, field: string): DroverError {
  return invalid(field, `expected no id beside idempotencyKey, which makes it ${keyed}`, JSON.stringify(id));
}

function invalid(field: string, message: string, value?: string): DroverError {
  const sentence = value === undefined ? `${field}: ${message}` : `${field}: ${message}, got ${value}`;
  return new DroverError('invalid_request', sentence, { issues: [{ field, message, ...(value && { value }) }] });
}
