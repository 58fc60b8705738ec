/**
 * Reads the body of a request and parses it into the input of its route. What it costs is limited before it is spent:
 * its bytes by the route, its shape before it is parsed, and its memory by what all requests of the server may take.
 *
 * Uses plain JSON.parse. Fastify's own parser rejects "__proto__" as a protection against merging, but nothing here
 * merges its input, and JSON.parse makes such a key an ordinary one.
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { checkJsonShape, DroverError, invalidInput, LIMITS, type Route } from '@drover/protocol';
import type { z } from 'zod';
import { jsonProblem } from '../base/json-problem.js';
import type { MemoryShare } from '../base/memory-budget.js';

/** A longer text is not read again to find the mistake. */
const MAX_EXPLAINED_LENGTH = 64 * 1024;
export const JSON_TYPE = 'application/json';

/** A body that has not been read, and its declared type. */
export type SentBody = { stream: IncomingMessage; mediaType: string };

/** Bytes of memory for one parsed value, approximately. */
const VALUE_BYTES = 64;

const LARGE_BYTES = 4 * 1024 * 1024;

/** Throws invalid_request with the error in the input. */
export function parseWith(schema: z.ZodType, input: unknown): unknown {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw invalidInput(parsed.error, input, { known: fieldsOf(schema) });
  return parsed.data;
}

/** For suggestions. */
function fieldsOf(schema: z.ZodType): string[] {
  const { shape } = schema.def as { shape?: object };
  return shape === undefined ? [] : Object.keys(shape);
}

/** The body as its route expects it. A route without a body refuses one instead of ignoring it. */
export async function readBody(route: Route, sent: SentBody | undefined, memory: MemoryShare): Promise<unknown> {
  const text = sent ? await readText(await receive(sent.stream, route.bodyBytes ?? LIMITS.bodyBytes, memory)) : '';
  const expected = route.bodyType ?? JSON_TYPE;
  if (sent && text !== '' && sent.mediaType !== expected) {
    throw new DroverError('unsupported_media_type', `content-type: expected ${expected}, got ${sent.mediaType}`);
  }
  if (route.bodyType !== undefined) return text;
  const json = readJson(text, memory);
  return route.body ? parseWith(route.body, json) : refuseBody(json);
}

/** A body of known length is refused before it has come. */
async function receive(stream: IncomingMessage, limitBytes: number, memory: MemoryShare): Promise<Buffer> {
  const declared = Number(stream.headers['content-length'] ?? 0);
  if (declared > limitBytes) throw tooLarge(limitBytes);
  memory.check(declared);
  const chunks: Buffer[] = [];
  let bytes = 0;
  return new Promise((resolve, reject) => {
    function receiveChunk(chunk: Buffer): void {
      bytes += chunk.length;
      try {
        if (bytes > limitBytes) throw tooLarge(limitBytes);
        memory.take(chunk.length);
        chunks.push(chunk);
      } catch (error) {
        stream.off('data', receiveChunk);
        stream.resume();
        reject(error);
      }
    }
    stream.on('data', receiveChunk);
    stream.on('end', () => resolve(Buffer.concat(chunks, bytes)));
    stream.on('error', (cause) => reject(interrupted(cause)));
  });
}

function tooLarge(limit: number): DroverError {
  return new DroverError('request_too_large', `the request body is over the limit of ${limit} bytes`, { limit });
}

function interrupted(cause: Error): DroverError {
  const message = 'the connection ended before the whole body had come';
  return new DroverError('invalid_request', message, undefined, { cause });
}

/** Large bodies are read in several turns of the event loop, so that no turn takes long. */
async function readText(body: Buffer): Promise<string> {
  if (body.length > LARGE_BYTES) await nextTurn();
  if (!isUtf8(body)) throw new DroverError('invalid_json', 'the body is not valid JSON: it is not UTF-8');
  const text = body.toString('utf8');
  if (body.length > LARGE_BYTES) await nextTurn();
  return text;
}

/** Undefined for an empty body: some clients send the content type with it. */
function readJson(text: string, memory: MemoryShare): unknown {
  if (text === '') return undefined;
  memory.take(checkJsonShape(text, '(body)') * VALUE_BYTES);
  try {
    return JSON.parse(text);
  } catch {
    // JSON.parse quotes the text, and does not always say where the mistake is
    const place = text.length <= MAX_EXPLAINED_LENGTH ? `: ${jsonProblem(text)}` : '';
    throw new DroverError('invalid_json', `the body is not valid JSON${place}`);
  }
}

function refuseBody(body: unknown): undefined {
  const isEmpty = body === undefined || body === null || (typeof body === 'object' && Object.keys(body).length === 0);
  if (!isEmpty) throw new DroverError('invalid_request', '(body): expected none');
}
