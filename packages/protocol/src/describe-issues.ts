/** Turns the issues of a schema into one sentence with the field, the value and what was expected. */
import type { z } from 'zod';
import { DroverError, type FieldIssue } from './errors.js';

const SHOWN_VALUE_LENGTH = 100;
const SHOWN_ISSUES = 20;

/** `place`: the position of the input in what the user gave, such as `jobs[3]`. */
export function describeIssues(error: z.ZodError, input: unknown, place = ''): FieldIssue[] {
  return error.issues.slice(0, SHOWN_ISSUES).map((issue) => {
    const value = valueAt(input, issue.path);
    const field = [place, fieldName(issue.path)].filter((part) => part !== '').join('.') || '(body)';
    const message = issue.code === 'unrecognized_keys' ? unknownKeys(issue.keys) : issue.message;
    return value === undefined ? { field, message } : { field, message, value: shorten(value) };
  });
}

/** The error for input that does not match its schema. */
export function invalidInput(error: z.ZodError, input: unknown, place?: string): DroverError {
  const issues = describeIssues(error, input, place);
  const sentences = issues.map(({ field, message, value }) =>
    value === undefined ? `${field}: ${message}` : `${field}: ${message}, got ${String(value)}`,
  );
  return new DroverError('invalid_request', sentences.join('; '), { issues });
}

function unknownKeys(keys: string[]): string {
  return `unknown ${keys.length === 1 ? 'field' : 'fields'} ${keys.map((key) => JSON.stringify(key)).join(', ')}`;
}

export function fieldName(path: readonly PropertyKey[]): string {
  return path.reduce<string>((name, part) => {
    if (typeof part === 'number') return `${name}[${part}]`;
    return name ? `${name}.${String(part)}` : String(part);
  }, '');
}

/** A string on the path is the value itself: a list may be given as `a,b`, and its parts have no path of their own. */
function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((value, key) => {
    if (typeof value === 'string') return value;
    return typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined;
  }, input);
}

function shorten(value: unknown): string {
  const text = textOf(value);
  return text.length > SHOWN_VALUE_LENGTH ? `${text.slice(0, SHOWN_VALUE_LENGTH)}…` : text;
}

function textOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // nested deeper than the stack allows, or cyclic
    return `a deeply nested ${Array.isArray(value) ? 'list' : 'object'}`;
  }
}
