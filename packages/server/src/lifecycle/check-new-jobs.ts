/**
 * What a new job must keep to beyond its schema: the size and depth of its payload, the time in its id. This
 * is the hot path, so the text of a payload is not written just to be measured (0.1 against 0.4 µs a job).
 */
import { DroverError, type NewJob } from '@drover/protocol';
import { afterIdsOf, ID_AHEAD_LIMIT_MS, isVersion7 } from '../id-time.js';
import { UnreadJson } from './unread-json.js';

/**
 * How deep a payload may be nested. Node's JSON.stringify gives up somewhere above 3,000 levels and
 * PostgreSQL above some 10,000; past that, one job would spoil the batch that others are in.
 */
export const MAX_PAYLOAD_DEPTH = 1000;
/** The most bytes that JSON takes for a character (\u0000), and for a number, true, false or null. */
const BYTES_A_CHARACTER = 6;
const BYTES_A_NUMBER = 25;
/** The most bytes that UTF-8 takes for a character of a string. */
const UTF8_BYTES_A_CHARACTER = 3;
/** A level takes two characters at least. */
const CHARACTERS_A_LEVEL = 2;

export type NewJobLimits = { payloadLimitBytes: number; nowMs: number };

/**
 * Throws what is wrong with the first job that breaks a rule; UnreadableJson if that cannot be told. A payload that was passed on
 * unread stays so only if its text as such keeps to the rules: what is checked must be what is stored and sent.
 */
export function checkNewJobs(jobs: readonly NewJob[], limits: NewJobLimits, inBatch: boolean): void {
  const latestId = latestIdAt(limits.nowMs);
  for (let index = 0; index < jobs.length; index++) {
    const job = jobs[index] as NewJob;
    if (job.id !== undefined && job.id > latestId && isVersion7(job.id)) {
      throw idAhead(job.id, fieldOf('id', index, inBatch));
    }
    if (job.payload instanceof UnreadJson) {
      if (isSurelyFine(job.payload.text, limits)) continue;
      job.payload = job.payload.toJSON();
    }
    const bytes = bytesAtMost(job.payload, MAX_PAYLOAD_DEPTH);
    if (bytes <= limits.payloadLimitBytes) continue;
    const field = fieldOf('payload', index, inBatch);
    if (bytes === Number.POSITIVE_INFINITY) throw tooDeep(field);
    checkSize(job.payload, limits.payloadLimitBytes, field);
  }
}

let latest = { second: 0, id: '' };

/** Written once a second, not for every job that comes alone: it may be a second too strict. */
function latestIdAt(nowMs: number): string {
  const second = Math.floor(nowMs / 1000);
  if (second !== latest.second) latest = { second, id: afterIdsOf(second * 1000 + ID_AHEAD_LIMIT_MS) };
  return latest.id;
}

/** At most so many bytes of JSON, found without writing it; infinity if it is nested deeper than `levels`. */
export function bytesAtMost(value: unknown, levels: number): number {
  if (typeof value === 'string') return 2 + BYTES_A_CHARACTER * value.length;
  if (typeof value !== 'object' || value === null) return BYTES_A_NUMBER;
  if (levels === 0) return Number.POSITIVE_INFINITY;
  let bytes = 2;
  if (Array.isArray(value)) {
    for (const item of value) bytes += 1 + bytesAtMost(item, levels - 1);
  } else {
    for (const key in value) {
      bytes += 4 + BYTES_A_CHARACTER * key.length + bytesAtMost((value as Record<string, unknown>)[key], levels - 1);
    }
  }
  return bytes;
}

function isSurelyFine(text: string, { payloadLimitBytes }: NewJobLimits): boolean {
  const { length } = text;
  return length <= CHARACTERS_A_LEVEL * MAX_PAYLOAD_DEPTH && UTF8_BYTES_A_CHARACTER * length <= payloadLimitBytes;
}

function checkSize(payload: unknown, limit: number, field: string): void {
  const bytes = Buffer.byteLength(JSON.stringify(payload));
  if (bytes <= limit) return;
  const message = `${field}: expected at most ${limit} bytes of JSON, got ${bytes}`;
  throw new DroverError('payload_too_large', message, { field, limit, bytes });
}

function fieldOf(name: string, index: number, inBatch: boolean): string {
  return inBatch ? `jobs[${index}].${name}` : name;
}

function tooDeep(field: string): DroverError {
  return invalid(field, `expected JSON of at most ${MAX_PAYLOAD_DEPTH} levels`);
}

function idAhead(id: string, field: string): DroverError {
  return invalid(field, 'its time lies more than a day ahead: check the clock of its maker', JSON.stringify(id));
}

function invalid(field: string, message: string, value?: string): DroverError {
  const sentence = value === undefined ? `${field}: ${message}` : `${field}: ${message}, got ${value}`;
  return new DroverError('invalid_request', sentence, { issues: [{ field, message, ...(value && { value }) }] });
}
