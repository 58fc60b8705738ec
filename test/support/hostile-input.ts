/** Generated input for the wire, the API and SQL, from their own schemas: valid in most places, hostile in some. */
import { newId } from '@drover/protocol';
import fc from 'fast-check';
import type { z } from 'zod';
import { definitionOf, isPreprocessed } from './walk-schema.js';

/** Stands for a job that exists. */
export const KNOWN_ID = '01890000-0000-7000-8000-00000000aaaa';

const HOUR_MS = 3_600_000;

/** Each leaf of a schema takes at least one of them: a new kind of value needs an entry here. */
const CANDIDATES: readonly unknown[] = [
  KNOWN_ID,
  newId(),
  'name',
  'a/b',
  '30s',
  '1ms',
  '2030-01-31T12:00:00Z',
  '1970-01-01T00:00:00Z',
  '2030-01-31',
  '12:30',
  '0 0 * * *',
  '@daily',
  'Europe/Berlin',
  'k'.repeat(43),
  'free text',
  '',
  '5',
  '5%',
  0,
  1,
  2,
  5,
  HOUR_MS,
  true,
  false,
  null,
];

const LONG = 100_000;
const PROTOTYPE_NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then', 'toJSON'];

function nested(levels: number): unknown {
  return JSON.parse('['.repeat(levels) + ']'.repeat(levels));
}

const HOSTILE_VALUES: readonly unknown[] = [
  'a\0b',
  '\ud800',
  'a\udc00b',
  '\u202e\u001b[31m',
  'x'.repeat(LONG),
  '\0'.repeat(LONG),
  ' ',
  '%00',
  '../..',
  "'; drop table drover.job; --",
  '9'.repeat(400),
  'Infinity',
  'NaN',
  '1e999',
  '-1ms',
  '9999999d',
  '275760-09-13T00:00:00.001Z',
  '0000-01-01T00:00:00Z',
  ...PROTOTYPE_NAMES,
  -1,
  0.5,
  -0.0001,
  2 ** 31,
  2 ** 53,
  9e15,
  1e308,
  -1e308,
  5e-324,
  null,
  true,
  [],
  {},
  [[]],
  nested(1005),
  Array(20_000).fill(0),
  Object.fromEntries(PROTOTYPE_NAMES.map((name) => [name, { [name]: 1 }])),
];

export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...HOSTILE_VALUES) },
  { weight: 1, arbitrary: fc.jsonValue() },
  { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
);

/** Texts that are not JSON, or not what any message is. */
export const hostileText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '',
    '{',
    '[',
    'null',
    '0',
    '"',
    '{}',
    '[]',
    '\0',
    '\ud800',
    '{"kind":',
    '['.repeat(LONG),
    '[{},'.repeat(LONG),
  ),
  fc.string(),
  hostileValue.map((value) => JSON.stringify(value) ?? ''),
);

const ABSENT = Symbol('absent');

/** Hostile in one of so many places. */
const MOSTLY = 8;

function mostly(valid: fc.Arbitrary<unknown>, isOptional = false): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: MOSTLY, arbitrary: valid },
    { weight: isOptional ? MOSTLY : 1, arbitrary: fc.constant(ABSENT) },
    { weight: 1, arbitrary: hostileValue },
  );
}

const known = new Map<z.ZodType, fc.Arbitrary<unknown>>();

/** Input for a schema. */
export function inputOf(schema: z.ZodType): fc.Arbitrary<unknown> {
  const made = known.get(schema) ?? makeInput(schema);
  known.set(schema, made);
  return made;
}

function makeInput(schema: z.ZodType): fc.Arbitrary<unknown> {
  const definition = definitionOf(schema);
  const { type, shape = {}, element, innerType, options = [], in: first, out, valueType, entries, values } = definition;
  switch (type) {
    case 'object':
      return objectOf(shape);
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
      return inputOf(innerType as z.ZodType);
    case 'union':
      return fc.oneof(...options.map(inputOf));
    case 'record':
      return fc.dictionary(fc.constantFrom('name', ...PROTOTYPE_NAMES), inputOf(valueType as z.ZodType), {
        maxKeys: 3,
      });
    case 'array':
      return fc.array(mostly(inputOf(element as z.ZodType)), { maxLength: 4 }).map(presentOnly);
    case 'enum':
      return fc.constantFrom(...Object.values(entries ?? {}));
    case 'literal':
      return fc.constantFrom(...(values ?? []));
    case 'unknown':
      return fc.oneof(fc.jsonValue(), hostileValue);
    case 'pipe':
      if (isPreprocessed(definition)) return inputOf(out as z.ZodType);
      return definitionOf(first as z.ZodType).type === 'object' ? inputOf(first as z.ZodType) : leafOf(schema);
    default:
      return leafOf(schema);
  }
}

function leafOf(schema: z.ZodType): fc.Arbitrary<unknown> {
  const valid = CANDIDATES.filter((candidate) => schema.safeParse(candidate).success);
  return valid.length === 0 ? hostileValue : fc.constantFrom(...valid);
}

/** Whether valid input for this leaf is among the candidates. */
export function hasCandidate(schema: z.ZodType): boolean {
  const { type } = definitionOf(schema);
  return type === 'enum' || type === 'literal' || CANDIDATES.some((candidate) => schema.safeParse(candidate).success);
}

function objectOf(shape: Record<string, z.ZodType>): fc.Arbitrary<unknown> {
  const fields = Object.entries(shape).map(([name, schema]) => {
    const isOptional = ['optional', 'default', 'prefault'].includes(definitionOf(schema).type);
    return mostly(inputOf(schema), isOptional).map((value): [string, unknown] => [name, value]);
  });
  const extra = mostly(fc.constant(ABSENT), true).chain((value) =>
    fc.constantFrom('other', ...PROTOTYPE_NAMES).map((name): [string, unknown] => [name, value]),
  );
  return fc.tuple(...fields, extra).map((all) => Object.fromEntries(all.filter(([, value]) => value !== ABSENT)));
}

function presentOnly(values: unknown[]): unknown[] {
  return values.filter((value) => value !== ABSENT);
}

/** `DROVER_FUZZ_SECONDS`: how long each suite runs, with new input each time. Without it a short time, with the same input. */
const GIVEN_SECONDS = process.env.DROVER_FUZZ_SECONDS;
const SECONDS = Number(GIVEN_SECONDS ?? 5);
const RUNS_AT_ONCE = 20;
const FIRST_SEED = GIVEN_SECONDS === undefined ? 1 : Date.now() % 2 ** 31;

export const FUZZ_TIMEOUT_MS = SECONDS * 1000 + 60_000;

/** Runs a property again and again. A failure names the seed and the smallest input. */
export async function fuzz<Input>(property: fc.IAsyncProperty<Input>): Promise<void> {
  const end = performance.now() + SECONDS * 1000;
  for (let seed = FIRST_SEED; performance.now() < end; seed++) {
    await fc.assert(property, { seed, numRuns: RUNS_AT_ONCE, endOnFailure: false });
  }
}
