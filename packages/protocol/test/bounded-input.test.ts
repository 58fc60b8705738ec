/** What comes from outside is bounded and storable, by construction: these tests walk every schema of the wire and the API. */
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { definitionOf, type Part, partsOf } from '../../../test/support/walk-schema.js';
import { bulkHeadSchema, LIMITS, ROUTES, type Route, workerMessageSchema } from '../src/index.js';

const inputs: [name: string, schema: z.ZodType][] = [
  ['worker', workerMessageSchema],
  ['bulk', bulkHeadSchema],
  ...Object.entries(ROUTES).flatMap(([name, route]: [string, Route]) =>
    (['params', 'query', 'body'] as const).flatMap((part): [string, z.ZodType][] => {
      const schema = route[part];
      return schema ? [[`${name}.${part}`, schema]] : [];
    }),
  ),
];
const parts = inputs.flatMap(([name, schema]) => partsOf(schema, name));
const leaves = parts.filter(({ kind }) => kind === 'leaf');

/** JSON of users. The body limits bound it, and the limits of payloads. */
const JSON_VALUES = /\.payload$|^startRun\.body\.input$|^putWorkflow\.body\b.*\.(input|over|if|output)$/;
/** Checked for each outcome, and fails its job (`sessions/limit-outcome.ts`). */
const RESULT = /<succeeded>\.result$/;
const OUTCOME_TIMES = /<outcomes>.*\.(runMs|inMs|retryInMs)$/;
/** Ignored by the server if it is not JSON. */
const PROGRESS = /<progress>\.items\[\]\.value$/;
/** Counters and versions, which are compared and never stored. */
const COUNTERS = /\.(window|batch|beat|received|version)$/;

const HOSTILE_TEXTS = {
  'U+0000': 'a\0b',
  'a high surrogate without its other half': 'a\ud800b',
  'a low surrogate without its other half': '\udc00',
  'an enormous text': 'x'.repeat(10 * 1024 * 1024),
  'an enormous text of surrogates': '\ud83d\ude00'.repeat(100_000).slice(0, -1),
};
const HOSTILE_NUMBERS = [
  1e308,
  -1e308,
  Number.MAX_SAFE_INTEGER,
  Number.MIN_SAFE_INTEGER,
  Number.POSITIVE_INFINITY,
  Number.NaN,
  1.5e15,
];

/** Larger than any limit of a text. */
const LONGEST_TEXT = LIMITS.progressBytes;

function isJsonValue({ path, schema }: Part): boolean {
  return definitionOf(schema).type === 'unknown' && JSON_VALUES.test(path);
}

test('the walk finds the parts that it is about', () => {
  const paths = parts.map(({ path }) => path);
  for (const path of [
    'worker<beat>.trouble',
    'worker<outcomes>.items[]<failed>.error.code',
    'worker<hello>.holds',
    'enqueueJobs.body.jobs[].tags[]',
  ])
    expect(paths).toContain(path);
  expect(leaves.length).toBeGreaterThan(200);
});

test('every list has its length checked before its items', () => {
  expect(parts.filter(({ kind }) => kind === 'bare array').map(({ path }) => path)).toEqual([]);
});

describe.each(Object.entries(HOSTILE_TEXTS))('%s', (_, text) => {
  test('is refused in every text, or made storable and cut', () => {
    const letThrough = leaves
      .filter((part) => !isJsonValue(part) && !RESULT.test(part.path) && !PROGRESS.test(part.path))
      .flatMap(({ path, schema }) => {
        const parsed = schema.safeParse(text);
        if (!parsed.success || typeof parsed.data !== 'string') return [];
        const isStorable = !/[\0\p{Cs}]/u.test(parsed.data);
        return isStorable && parsed.data.length <= LONGEST_TEXT ? [] : [path];
      });
    expect(letThrough).toEqual([]);
  });
});

test('every number has a largest and a smallest value that PostgreSQL and dates can hold', () => {
  const letThrough = leaves
    .filter((part) => !isJsonValue(part) && !COUNTERS.test(part.path) && !OUTCOME_TIMES.test(part.path))
    .flatMap(({ path, schema }) =>
      HOSTILE_NUMBERS.filter((number) => schema.safeParse(number).success).map((number) => `${path}: ${number}`),
    );
  expect(letThrough).toEqual([]);
});

test('only payloads are values of any form', () => {
  const unknown = leaves.filter(({ schema }) => definitionOf(schema).type === 'unknown').map(({ path }) => path);
  expect(unknown.filter((path) => !JSON_VALUES.test(path))).toEqual([]);
});
