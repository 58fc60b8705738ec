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
    const message = messageOf(issue, value);
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

/** How zod begins the messages that no schema of ours has replaced. They name the type of the value, which follows. */
const DEFAULT_MESSAGE = /^(?:Invalid (?:input|option)|Too (?:small|big))\b/;

function messageOf(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'unrecognized_keys') return unknownKeys(issue.keys);
  const expected = DEFAULT_MESSAGE.test(issue.message) ? expectedBy(issue) : undefined;
  if (expected === undefined) return issue.message;
  return value === undefined ? `expected ${expected}, got nothing` : `expected ${expected}`;
}

function expectedBy(issue: z.core.$ZodIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return KINDS[issue.expected] ?? issue.expected;
    case 'invalid_value':
      return choiceOf(issue.values);
    case 'too_small':
      return sizeOf(issue.origin, 'at least', issue.minimum);
    case 'too_big':
      return sizeOf(issue.origin, 'at most', issue.maximum);
    default:
      return undefined;
  }
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
};

const UNITS: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: [' character', ' characters'],
  array: [' item', ' items'],
};

function choiceOf(values: readonly unknown[]): string {
  const shown = values.map((value) => JSON.stringify(value) ?? String(value));
  return shown.length === 1 ? (shown[0] as string) : `one of ${shown.join(', ')}`;
}

function sizeOf(origin: string, bound: string, limit: number | bigint): string {
  const [one, many] = UNITS[origin] ?? ['', ''];
  return `${bound} ${limit}${Number(limit) === 1 ? one : many}`;
}

const SHOWN_KEYS = 10;

function unknownKeys(keys: string[]): string {
  const shown = keys.slice(0, SHOWN_KEYS).map((key) => JSON.stringify(shortened(key)));
  const more = keys.length > SHOWN_KEYS ? ` and ${keys.length - SHOWN_KEYS} more` : '';
  return `unknown ${keys.length === 1 ? 'field' : 'fields'} ${shown.join(', ')}${more}`;
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
  return shortened(textOf(value, SHOWN_VALUE_LENGTH));
}

function shortened(text: string): string {
  return text.length > SHOWN_VALUE_LENGTH ? `${text.slice(0, SHOWN_VALUE_LENGTH)}…` : text;
}

/** As JSON, approximately. Stops after `length` characters, because the value may be a whole request. */
function textOf(value: unknown, length: number): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, length + 1));
  if (value instanceof Date) return JSON.stringify(value);
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? listText(value, length) : objectText(value, length);
}

function listText(list: readonly unknown[], length: number): string {
  let text = '[';
  for (const item of list) {
    if (text.length > length) return text;
    text += `${text.length > 1 ? ',' : ''}${textOf(item, length - text.length)}`;
  }
  return `${text}]`;
}

function objectText(object: object, length: number): string {
  let text = '{';
  for (const key in object) {
    if (text.length > length) return text;
    const comma = text.length > 1 ? ',' : '';
    const value = (object as Readonly<Record<string, unknown>>)[key];
    text += `${comma}${JSON.stringify(key.slice(0, length))}:${textOf(value, length - text.length)}`;
  }
  return `${text}}`;
}
