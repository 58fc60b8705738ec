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

export const tagSchema = z
  .string()
  .min(1)
  .max(LIMITS.tagLength)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'expected a string without control characters');

/** U+0000 and half of a surrogate pair: valid in JavaScript and JSON, but not in PostgreSQL's `text`. */
const UNSTORABLE = /[\0\p{Cs}]/gu;

/** Text by people for people, such as the note of a pause. */
export const noteSchema = z
  .string()
  .max(LIMITS.noteLength)
  .refine((text) => text.search(UNSTORABLE) < 0, 'expected a string without U+0000 and without unpaired surrogates');

/** Replaces each character that PostgreSQL cannot store by a replacement character. */
export function storableText(text: string): string {
  return text.replace(UNSTORABLE, '\ufffd');
}

export const idSchema = z
  .string()
  .refine(isUuid, 'expected a UUID')
  .transform((id) => id.toLowerCase());

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
