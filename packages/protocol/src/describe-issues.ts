/** Turns the issues of a schema into one sentence with the field, the value and what was expected. */
import type { z } from 'zod';
import { DroverError, type FieldIssue } from './errors.js';
import { nearest } from './nearest.js';

const SHOWN_VALUE_LENGTH = 100;
const SHOWN_ISSUES = 20;

const BODY = '(body)';

/** Where an input comes from. */
type Source = {
  /** Its position in what the user gave, such as `jobs[3]`. */
  place?: string | undefined;
  /** The fields that it may have, for suggestions. */
  known?: readonly string[] | undefined;
};

export function describeIssues(
  error: z.ZodError,
  input: unknown,
  { place = '', known = [] }: Source = {},
): FieldIssue[] {
  return error.issues.slice(0, SHOWN_ISSUES).map((issue) => {
    const field = [place, fieldName(issue.path)].filter((part) => part !== '').join('.') || BODY;
    if (issue.code === 'unrecognized_keys') {
      return { field, message: unknownKeys(issue.keys, issue.path.length === 0 ? known : []) };
    }
    // the name of a member of a record
    if (issue.code === 'invalid_key') {
      const [first] = issue.issues;
      const name = issue.path.at(-1);
      return { field, message: first === undefined ? issue.message : messageOf(first, name), value: shorten(name) };
    }
    const value = valueAt(input, issue.path);
    const message = messageOf(issue, value);
    return value === undefined ? { field, message } : { field, message, value: shorten(value) };
  });
}

/** The error for input that does not match its schema. */
export function invalidInput(error: z.ZodError, input: unknown, source?: Source): DroverError {
  const issues = describeIssues(error, input, source);
  return new DroverError('invalid_request', issues.map(sentenceOf).join('; '), { issues });
}

/** One problem as a sentence with the field, what was expected, and what was given. */
export function sentenceOf({ field, message, value }: FieldIssue): string {
  const start = field === BODY && message.startsWith(UNKNOWN) ? message : `${field}: ${message}`;
  if (value === undefined) return start;
  if (!message.includes(', got ')) return `${start}, got ${String(value)}`;
  // It names the part of the value that is wrong.
  return String(value).startsWith('"') ? `${start} in ${String(value)}` : start;
}

/** How zod begins the messages that no schema of ours has replaced. They name the type of the value, which follows. */
const DEFAULT_MESSAGE = /^(?:Invalid (?:input|option)|Too (?:small|big))\b/;

function messageOf(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'invalid_union' && value === undefined) return `${issue.message}, got nothing`;
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

const UNKNOWN = 'unknown field';

function unknownKeys(keys: string[], known: readonly string[]): string {
  const shown = keys.slice(0, SHOWN_KEYS).map((key) => JSON.stringify(shortened(key)));
  const more = keys.length > SHOWN_KEYS ? ` and ${keys.length - SHOWN_KEYS} more` : '';
  const text = `${UNKNOWN}${keys.length === 1 ? '' : 's'} ${shown.join(', ')}${more}`;
  if (known.length === 0) return text;
  const near = nearest(shortened(keys[0] as string), known);
  return near === undefined ? `${text}; expected one of ${known.join(', ')}` : `${text}; did you mean "${near}"?`;
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
