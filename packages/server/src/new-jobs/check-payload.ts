/** Checks the payload of a job that is added by the name of its type against the JSON Schema that its workers registered. */
import { DroverError } from '@drover/protocol';
import { findMismatches } from './json-schema.js';
import type { KnownType } from './known-types.js';

/** `field` names the payload in the error. A text that is not JSON passes: the database refuses it, with the position. */
export function checkPayloadText(type: KnownType | undefined, payload: string, field: string): void {
  if (type?.payloadSchema === undefined) return;
  let value: unknown;
  try {
    value = JSON.parse(payload);
  } catch {
    return;
  }
  checkPayloadValue(type, value, field);
}

export function checkPayloadValue(type: KnownType | undefined, value: unknown, field: string): void {
  if (type?.payloadSchema === undefined) return;
  const issues = findMismatches(type.payloadSchema, value, field);
  if (issues.length === 0) return;
  const sentences = issues.map((issue) => `${issue.field}: ${issue.message}${got(issue.value)}`);
  throw new DroverError('invalid_request', `${sentences.join('; ')} (job type "${type.type}")`, { issues });
}

function got(value: unknown): string {
  return value === undefined ? '' : `, got ${String(value)}`;
}
