/**
 * What JSON text would cost to parse, found without parsing it: a short text can stand for millions of values that take
 * a hundred times its memory.
 */
import { DroverError } from './errors.js';
import { LIMITS } from './limits.js';

export type JsonShape = {
  /** Levels of nesting. */
  depth: number;
  /** Values and keys, approximately: one for each comma and colon outside strings, and five for each list or object. */
  values: number;
};

/** What a list or an object costs, compared with a number. */
const CONTAINER_VALUES = 5;

/** Characters outside strings for each value, at most: what else is there, such as blanks, only costs time. */
const PLAIN_PER_VALUE = 12;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

const UNBOUNDED: JsonShape = { depth: Number.POSITIVE_INFINITY, values: Number.POSITIVE_INFINITY };

/** Stops as soon as it has found more than `most`. For text that is not JSON the numbers have no meaning. */
export function jsonShape(text: string, most = UNBOUNDED): JsonShape {
  let depth = 0;
  let deepest = 0;
  let values = 0;
  let plainEnd = PLAIN_PER_VALUE * most.values;
  for (let place = 0; place < text.length && values <= most.values && deepest <= most.depth; place++) {
    if (place > plainEnd) return { depth: deepest, values: Number.POSITIVE_INFINITY };
    switch (text.charCodeAt(place)) {
      case QUOTE: {
        const end = endOfString(text, place);
        plainEnd += end - place;
        place = end;
        break;
      }
      case OPENING_BRACKET:
      case OPENING_BRACE:
        depth += 1;
        values += CONTAINER_VALUES;
        if (depth > deepest) deepest = depth;
        break;
      case CLOSING_BRACKET:
      case CLOSING_BRACE:
        depth -= 1;
        break;
      case COMMA:
      case COLON:
        values += 1;
    }
  }
  return { depth: deepest, values };
}

/** The place of the quote that ends the string. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

/** Whether an odd number of backslashes stands before this place. */
function isEscaped(text: string, place: number): boolean {
  let first = place;
  while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (place - first) % 2 === 1;
}

/** A level of nesting takes at least two characters. */
const CHARACTERS_PER_LEVEL = 2;

export function isTooDeep(text: string): boolean {
  if (text.length <= CHARACTERS_PER_LEVEL * LIMITS.payloadDepth) return false;
  return jsonShape(text, { ...UNBOUNDED, depth: LIMITS.payloadDepth }).depth > LIMITS.payloadDepth;
}

/** A payload may have the deepest nesting, and is nested in its request itself. */
const JSON_LIMITS: JsonShape = { depth: LIMITS.payloadDepth + 10, values: LIMITS.jsonValues };
/** Shorter text stands for little memory, whatever it contains. */
const CHEAP_LENGTH = 2000;

/** Checks what JSON text would cost before it is parsed. Returns the number of its values, approximately; throws DroverError. */
export function checkJsonShape(text: string, name: string): number {
  if (text.length <= CHEAP_LENGTH) return 0;
  const { depth, values } = jsonShape(text, JSON_LIMITS);
  if (depth > JSON_LIMITS.depth) {
    const message = `${name}: expected at most ${JSON_LIMITS.depth} levels of lists and objects, got more`;
    throw new DroverError('invalid_request', message);
  }
  if (values > JSON_LIMITS.values) {
    const message = `${name}: expected at most ${JSON_LIMITS.values} values, got more; split it`;
    throw new DroverError('request_too_large', message, { limit: JSON_LIMITS.values });
  }
  return values;
}

/** Whether PostgreSQL accepts the text as `json`. */
export function isStorableJson(text: string): boolean {
  if (isTooDeep(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    // a SyntaxError: it is not JSON
    return false;
  }
}
