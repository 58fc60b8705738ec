/** The fields that many schemas share: names, tags, ids, timestamps. */
import { z } from 'zod';
import { LIMITS } from './limits.js';
import { isUuid } from './uuid.js';

/** Job types, queues, tags and worker names: no spaces, no control characters, safe in URLs, logs and files. */
const NAME_PATTERN = /^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$/;

export const nameSchema = z
  .string()
  .max(LIMITS.nameLength)
  .regex(NAME_PATTERN, 'expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _');

function labelSchema(maxLength: number) {
  return z
    .string()
    .min(1)
    .max(maxLength)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'expected a string without control characters');
}

export const tagSchema = labelSchema(LIMITS.tagLength);
export const idempotencyKeySchema = labelSchema(LIMITS.idempotencyKeyLength);

/** U+0000 and half of a surrogate pair: valid in JavaScript and JSON, but not in PostgreSQL's `text`. */
const UNSTORABLE = /[\0\p{Cs}]/gu;

/** Replaces each character that PostgreSQL cannot store by a replacement character. */
export function storableText(text: string): string {
  return text.replace(UNSTORABLE, '\ufffd');
}

/** Text that a person or a program sends and can correct: refused if it is too long or cannot be stored. */
export function textSchema(maxLength: number) {
  return z
    .string()
    .max(maxLength)
    .refine((text) => text.search(UNSTORABLE) < 0, 'expected a string without U+0000 and without unpaired surrogates');
}

/**
 * Text that a machine reports, such as the message of an error: cut and made storable, never refused. A worker cannot
 * correct it, and would send it again forever.
 */
export function reportedTextSchema(maxLength: number) {
  return z.string().transform((text) => storableText(text.slice(0, maxLength)));
}

/** Text by people for people, such as the note of a pause. */
export const noteSchema = textSchema(LIMITS.noteLength);

type ListLimits = {
  min?: number;
  max: number;
  /** Throws for a list of this length, where it has an error code of its own. */
  checkLength?: (length: number) => void;
};

/** A list. Its length is checked before its items, so a list that is too long costs nothing. */
export function listSchema<Item extends z.ZodType>(item: Item, { min, max, checkLength }: ListLimits) {
  const longest = z.array(item).max(max);
  const items = min === undefined ? longest : longest.min(min);
  const bounded = z.preprocess((list, context) => {
    if (!Array.isArray(list)) return list;
    checkLength?.(list.length);
    if (list.length <= max) return list;
    const message = `expected at most ${max} items, got ${list.length}`;
    context.issues.push({ code: 'custom', message, input: undefined });
    return z.NEVER;
  }, items);
  // the input of a preprocessed schema is `unknown` otherwise
  return bounded as unknown as typeof items;
}

function uuidSchema(expected: string) {
  return z
    .string()
    .refine(isUuid, expected)
    .transform((id) => id.toLowerCase());
}

export const idSchema = uuidSchema('expected a UUID');
/** The id that a user gives a job. */
export const ownIdSchema = uuidSchema('expected a UUID (idempotencyKey takes any text)');

export const ID_PREFIX_EXPECTED = 'an id, or at least its first 6 characters';
const ID_PREFIX_PATTERN = /^[0-9a-f]{6,32}$/;
/** Where the groups of an id begin. */
const ID_GROUPS = /^(.{8})(.{1,4})?(.{1,4})?(.{1,4})?(.+)?$/;

/** The beginning of an id, with its hyphens or without them. */
export const idPrefixSchema = z.string().transform((given, context) => {
  const digits = given.toLowerCase().replaceAll('-', '');
  if (ID_PREFIX_PATTERN.test(digits)) {
    const groups = ID_GROUPS.exec(digits)?.slice(1) ?? [digits];
    return groups.filter((group) => group !== undefined).join('-');
  }
  context.issues.push({ code: 'custom', message: `expected ${ID_PREFIX_EXPECTED}`, input: given });
  return z.NEVER;
});

const TIME_EXPECTED = 'expected a time in ISO 8601 such as "2030-01-31T12:00:00Z"';

/** A timestamp in ISO 8601 with its offset from UTC. Years outside 1970–9999 are refused. */
export const timeSchema = z
  .union([z.iso.datetime({ offset: true, error: TIME_EXPECTED }), z.date()], { error: TIME_EXPECTED })
  .transform((value, context) => {
    const time = new Date(value);
    const year = time.getUTCFullYear();
    if (year >= 1970 && year <= 9999) return time.toISOString();
    context.issues.push({ code: 'custom', message: 'expected a time between the years 1970 and 9999', input: value });
    return z.NEVER;
  });
