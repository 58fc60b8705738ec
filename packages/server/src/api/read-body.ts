/**
 * From the bytes of a request to what its route takes.
 *
 * The text is read by plain JSON.parse. Fastify's own reader looks for "__proto__" in it as a protection
 * against merging; nothing here merges what it was sent, and JSON.parse makes such a key an ordinary one.
 */
import { isUtf8 } from 'node:buffer';
import { DroverError, invalidInput, LIMITS, ROUTES, type RouteName } from '@drover/protocol';
import type { z } from 'zod';
import { readBatchLines, readJobLine } from './batch-lines.js';
import { parseNewJob, parseNewJobs } from './parse-new-job.js';

export function readText(body: Buffer): string {
  if (!isUtf8(body)) throw new DroverError('invalid_json', 'the body is not valid JSON: it is not UTF-8');
  return body.toString('utf8');
}

/** Undefined for no body at all: some clients send the content type with it nevertheless. */
function readJson(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new DroverError('invalid_json', `the body is not valid JSON: ${(error as Error).message}`);
  }
}

/** Throws invalid_request with what is wrong with the input. */
export function parseWith(schema: z.ZodType, input: unknown): unknown {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw invalidInput(parsed.error, input);
  return parsed.data;
}

/** Gives the body as the schema would, or undefined to leave it to the schema. */
type QuickReader = (body: unknown) => unknown;

const QUICK_READERS: Partial<Record<RouteName, QuickReader>> = {
  enqueueJob: parseNewJob,
  enqueueJobs(body) {
    if (typeof body !== 'object' || body === null) return undefined;
    const { jobs, answer, ...rest } = body as { jobs?: unknown; answer?: unknown };
    if (!Array.isArray(jobs) || Object.keys(rest).length > 0) return undefined;
    if (answer !== undefined && answer !== 'existing') return undefined;
    if (jobs.length > LIMITS.batchJobs) {
      const message = `jobs: expected at most ${LIMITS.batchJobs} jobs in a batch, got ${jobs.length}`;
      throw new DroverError('batch_too_large', message, { limit: LIMITS.batchJobs, jobs: jobs.length });
    }
    const parsed = parseNewJobs(jobs);
    return parsed && { jobs: parsed, answer };
  },
};

/** Gives what a body's text means to a route; throws DroverError. */
export type BodyReader = {
  /** May leave payloads unread (UnreadJson). */
  read(text: string): unknown;
  inFull(text: string): unknown;
};

/** What reads a body without its payloads, or gives undefined to leave it to JSON.parse. */
const UNREAD_READERS: Partial<Record<RouteName, (text: string) => unknown>> = {
  enqueueJob: readJobLine,
  enqueueJobs: readBatchLines,
};

/** The reader of a route's body. A route that takes none refuses one, rather than ignore it. */
export function bodyReader(name: RouteName): BodyReader {
  const route = ROUTES[name];
  const quickly = QUICK_READERS[name];
  const unread = UNREAD_READERS[name];
  const inFull = (text: string) => {
    const body = readJson(text);
    if (!('body' in route)) return refuseBody(body);
    return quickly?.(body) ?? parseWith(route.body, body);
  };
  return { inFull, read: unread === undefined ? inFull : (text) => unread(text) ?? inFull(text) };
}

function refuseBody(body: unknown): undefined {
  const isEmpty = body === undefined || body === null || (typeof body === 'object' && Object.keys(body).length === 0);
  if (!isEmpty) throw new DroverError('invalid_request', '(body): expected none');
}
