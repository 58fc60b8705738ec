/**
 * A bounded interpreter of JSON Schema (2020-12). The schemas come from workers, so it never compiles code, never runs their
 * regular expressions, and does a limited amount of work.
 *
 * Invariant: it refuses only what a full validator refuses. Keywords that it does not know, such as `pattern`, `format`,
 * `not` and `if`, allow everything; `oneOf` counts as `anyOf`, because a branch may match only for that reason. The worker
 * checks each payload with the schema itself.
 */
import { isDeepStrictEqual } from 'node:util';
import { type FieldIssue, fieldName } from '@drover/protocol';

/** Schemas visited for one payload. What is left after that is not checked. */
const MAX_STEPS = 100_000;
const MAX_DEPTH = 200;
const MAX_ISSUES = 20;
const SHOWN_VALUE_LENGTH = 100;
const SHOWN_CHOICES = 10;

type Path = readonly PropertyKey[];
type Keywords = Readonly<Record<string, unknown>>;
type Found = { path: Path; expected: string; value: unknown; isChoice?: boolean };
type Walk = { root: unknown; steps: number; depth: number };

const KINDS: Readonly<Record<string, { name: string; has: (value: unknown) => boolean }>> = {
  string: { name: 'a string', has: (value) => typeof value === 'string' },
  number: { name: 'a number', has: (value) => typeof value === 'number' },
  integer: { name: 'a whole number', has: (value) => Number.isInteger(value) },
  boolean: { name: 'true or false', has: (value) => typeof value === 'boolean' },
  null: { name: 'null', has: (value) => value === null },
  array: { name: 'a list', has: Array.isArray },
  object: { name: 'an object', has: isObject },
};

/** Where the value does not match; empty if it does. `field` is the name of the value. */
export function findMismatches(schema: unknown, value: unknown, field: string): FieldIssue[] {
  const walk: Walk = { root: schema, steps: MAX_STEPS, depth: 0 };
  const found = check(schema, value, [], walk);
  // an exhausted check has not seen everything, and an `anyOf` that it left may have matched
  if (walk.steps <= 0) return [];
  return found.slice(0, MAX_ISSUES).map((issue) => ({
    field: fieldName([field, ...issue.path]),
    message: `expected ${issue.expected}${issue.value === undefined ? ', got nothing' : ''}`,
    ...(issue.value !== undefined && { value: shorten(issue.value) }),
  }));
}

function check(schema: unknown, value: unknown, path: Path, walk: Walk): Found[] {
  if (schema === false) return [{ path, expected: 'no value here', value }];
  if (!isObject(schema) || --walk.steps <= 0 || walk.depth >= MAX_DEPTH) return [];
  walk.depth += 1;
  try {
    const wrong = wrongKind(schema, value);
    if (wrong !== undefined) return [{ path, expected: wrong, value, isChoice: hasChoices(schema) }];
    return [...checkOwn(schema, value, path, walk), ...checkCombined(schema, value, path, walk)];
  } finally {
    walk.depth -= 1;
  }
}

/** What `type`, `const` and `enum` expect, if the value is something else. */
function wrongKind(schema: Keywords, value: unknown): string | undefined {
  const kinds = [own(schema, 'type')].flat().filter((kind) => typeof kind === 'string' && Object.hasOwn(KINDS, kind));
  const expected = kinds.map((kind) => KINDS[kind as string] as (typeof KINDS)[string]);
  if (expected.length > 0 && !expected.some(({ has }) => has(value))) {
    return expected.map(({ name }) => name).join(' or ');
  }
  const choices = Object.hasOwn(schema, 'const') ? [schema.const] : own(schema, 'enum');
  if (!Array.isArray(choices) || choices.some((choice) => isDeepStrictEqual(choice, value))) return undefined;
  const shown = choices.slice(0, SHOWN_CHOICES).map((choice) => shorten(choice));
  const more = choices.length > SHOWN_CHOICES ? ', …' : '';
  return choices.length === 1 ? shown[0] : `one of ${shown.join(', ')}${more}`;
}

function hasChoices(schema: Keywords): boolean {
  return Object.hasOwn(schema, 'const') || Object.hasOwn(schema, 'enum');
}

function checkOwn(schema: Keywords, value: unknown, path: Path, walk: Walk): Found[] {
  if (typeof value === 'number') return outOfRange(schema, value).map((expected) => ({ path, expected, value }));
  if (typeof value === 'string') return wrongLength(schema, value, walk).map((expected) => ({ path, expected, value }));
  if (Array.isArray(value)) return checkItems(schema, value, path, walk);
  return isObject(value) ? checkFields(schema, value, path, walk) : [];
}

function outOfRange(schema: Keywords, value: number): string[] {
  const expected: string[] = [];
  const bound = (keyword: string, text: string, isOutside: (limit: number) => boolean) => {
    const limit = own(schema, keyword);
    if (typeof limit === 'number' && isOutside(limit)) expected.push(`a number ${text} ${limit}`);
  };
  bound('minimum', 'of at least', (limit) => value < limit);
  bound('maximum', 'of at most', (limit) => value > limit);
  bound('exclusiveMinimum', 'greater than', (limit) => value <= limit);
  bound('exclusiveMaximum', 'less than', (limit) => value >= limit);
  return expected;
}

/** Libraries count UTF-16 units, JSON Schema counts characters: only what is wrong by both counts is refused. */
function wrongLength(schema: Keywords, value: string, walk: Walk): string[] {
  const { minLength, maxLength } = schema;
  const expected: string[] = [];
  if (typeof minLength === 'number' && value.length < minLength)
    expected.push(`at least ${count(minLength, 'character')}`);
  if (typeof maxLength === 'number' && value.length > maxLength) {
    const isSurelyLonger = value.length > 2 * maxLength;
    if (!isSurelyLonger) walk.steps -= value.length >> 6;
    if (isSurelyLonger || [...value].length > maxLength) expected.push(`at most ${count(maxLength, 'character')}`);
  }
  return expected;
}

function checkItems(schema: Keywords, value: readonly unknown[], path: Path, walk: Walk): Found[] {
  const { minItems, maxItems } = schema;
  const found: Found[] = [];
  const wrong = (expected: string) => found.push({ path, expected, value });
  if (typeof minItems === 'number' && value.length < minItems) wrong(`at least ${count(minItems, 'item')}`);
  if (typeof maxItems === 'number' && value.length > maxItems) wrong(`at most ${count(maxItems, 'item')}`);
  if (found.length > 0) return found;
  const places = own(schema, 'prefixItems');
  const first = Array.isArray(places) ? places : [];
  const rest = own(schema, 'items');
  if (first.length === 0 && rest === undefined) return found;
  for (let index = 0; index < value.length && found.length < MAX_ISSUES && walk.steps > 0; index++) {
    found.push(...check(index < first.length ? first[index] : rest, value[index], [...path, index], walk));
  }
  return found;
}

function checkFields(schema: Keywords, value: Keywords, path: Path, walk: Walk): Found[] {
  const given = own(schema, 'properties');
  const properties = isObject(given) ? given : {};
  const found: Found[] = [];
  for (const name of listOf(own(schema, 'required'))) {
    if (typeof name !== 'string' || Object.hasOwn(value, name)) continue;
    const expected = expectedBy(own(properties, name), walk.root);
    found.push({ path: [...path, name], expected, value: undefined });
  }
  for (const [name, property] of Object.entries(properties)) {
    if (walk.steps <= 0 || found.length >= MAX_ISSUES) return found;
    if (Object.hasOwn(value, name)) found.push(...check(property, value[name], [...path, name], walk));
  }
  const others = own(schema, 'additionalProperties');
  if (others === undefined || others === true || Object.hasOwn(schema, 'patternProperties')) return found;
  for (const name of Object.keys(value)) {
    if (--walk.steps <= 0 || found.length >= MAX_ISSUES) return found;
    if (Object.hasOwn(properties, name)) continue;
    if (others === false) found.push({ path: [...path, name], expected: 'no such field', value: value[name] });
    else found.push(...check(others, value[name], [...path, name], walk));
  }
  return found;
}

function checkCombined(schema: Keywords, value: unknown, path: Path, walk: Walk): Found[] {
  const found: Found[] = [];
  const reference = own(schema, '$ref');
  if (typeof reference === 'string') found.push(...check(resolve(reference, walk.root), value, path, walk));
  for (const part of listOf(own(schema, 'allOf'))) found.push(...check(part, value, path, walk));
  for (const keyword of ['anyOf', 'oneOf']) {
    const branches = listOf(own(schema, keyword));
    if (branches.length > 0) found.push(...checkBranches(branches, value, path, walk));
  }
  return found;
}

/** The issues of the branch that was meant: the only one that goes wrong deeper inside, and not by the word that names it. */
function checkBranches(branches: readonly unknown[], value: unknown, path: Path, walk: Walk): Found[] {
  const wrong: Found[][] = [];
  for (const branch of branches) {
    const found = check(branch, value, path, walk);
    if (found.length === 0) return [];
    wrong.push(found);
  }
  const depth = path.length;
  const inside = wrong.filter((found) => found.every((issue) => issue.path.length > depth));
  const named = inside.filter((found) => !found.some((issue) => issue.isChoice && issue.path.length === depth + 1));
  const meant = named.length > 0 ? named : inside;
  const [only] = meant;
  if (only && meant.length === 1) return only;
  const expected = meant.length > 0 ? `one of ${branches.length} forms` : alternatives(wrong);
  return [{ path, expected, value }];
}

function alternatives(wrong: readonly Found[][]): string {
  const all = new Set(wrong.flatMap((found) => found.map(({ expected }) => expected)));
  return [...all].slice(0, SHOWN_CHOICES).join(' or ');
}

/** For a field that is missing. */
function expectedBy(schema: unknown, root: unknown): string {
  if (!isObject(schema)) return 'a value';
  const reference = own(schema, '$ref');
  const kind = typeof reference === 'string' ? wrongKindOf(resolve(reference, root)) : wrongKindOf(schema);
  return kind ?? 'a value';
}

function wrongKindOf(schema: unknown): string | undefined {
  return isObject(schema) ? wrongKind(schema, undefined) : undefined;
}

/** A reference inside the schema, as a JSON pointer. Anything else allows everything. */
function resolve(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#')) return true;
  const parts = reference.slice(1).split('/').slice(1);
  return parts.reduce<unknown>((at, part) => {
    const name = pointerPart(part);
    if (Array.isArray(at)) return at[Number(name)];
    return isObject(at) ? own(at, name) : undefined;
  }, root);
}

function pointerPart(part: string): string {
  const text = part.replaceAll('~1', '/').replaceAll('~0', '~');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function own(object: Keywords, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function isObject(value: unknown): value is Keywords {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function count(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? '' : 's'}`;
}

function shorten(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN_VALUE_LENGTH ? `${text.slice(0, SHOWN_VALUE_LENGTH)}…` : text;
}
