/**
 * Parses the bytes of a request into the input of its route.
 *
 * Uses plain JSON.parse. Fastify's own parser rejects "__proto__" as a protection against merging, but nothing here
 * merges its input, and JSON.parse makes such a key an ordinary one.
 */
import { isUtf8 } from 'node:buffer';
import { DroverError, invalidInput, type Route } from '@drover/protocol';
import type { z } from 'zod';

export const JSON_TYPE = 'application/json';

/** The text of a body and its declared type. */
export type RequestText = { text: string; mediaType: string };
export const NO_BODY: RequestText = { text: '', mediaType: '' };

export function readText(body: Buffer): string {
  if (!isUtf8(body)) throw new DroverError('invalid_json', 'the body is not valid JSON: it is not UTF-8');
  return body.toString('utf8');
}

/** Undefined for an empty body: some clients send the content type with it. */
function readJson(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new DroverError('invalid_json', `the body is not valid JSON: ${(error as Error).message}`);
  }
}

/** Throws invalid_request with the error in the input. */
export function parseWith(schema: z.ZodType, input: unknown): unknown {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw invalidInput(parsed.error, input);
  return parsed.data;
}

/** The body as its route expects it. A route without a body refuses one instead of ignoring it. */
export function readBody(route: Route, body: RequestText): unknown {
  const expected = route.bodyType ?? JSON_TYPE;
  if (body.text !== '' && body.mediaType !== expected) {
    throw new DroverError('unsupported_media_type', `content-type: expected ${expected}, got ${body.mediaType}`);
  }
  if (route.bodyType !== undefined) return body.text;
  const json = readJson(body.text);
  return route.body ? parseWith(route.body, json) : refuseBody(json);
}

function refuseBody(body: unknown): undefined {
  const isEmpty = body === undefined || body === null || (typeof body === 'object' && Object.keys(body).length === 0);
  if (!isEmpty) throw new DroverError('invalid_request', '(body): expected none');
}
