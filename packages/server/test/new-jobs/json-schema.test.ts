import { LIMITS } from '@drover/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { payloadJsonSchema } from '../../../sdk/src/json-schema.js';
import { checkPayloadText } from '../../src/new-jobs/check-payload.js';
import { findMismatches } from '../../src/new-jobs/json-schema.js';

const said = (schema: unknown, value: unknown) =>
  findMismatches(schema, value, 'payload').map(
    ({ field, message, value: shown }) => `${field}: ${message}${shown === undefined ? '' : `, got ${shown}`}`,
  );

const order = z.object({
  id: z.string().min(3).max(5),
  amount: z.number().positive().max(100),
  lines: z.array(z.object({ sku: z.string(), count: z.int() })).min(1),
  kind: z.enum(['card', 'cash']).default('card'),
  note: z.string().nullable().optional(),
  pay: z
    .discriminatedUnion('by', [
      z.object({ by: z.literal('iban'), iban: z.string() }),
      z.object({ by: z.literal('cash'), box: z.number() }),
    ])
    .optional(),
});
const GOOD = { id: 'a-1', amount: 5, lines: [{ sku: 'x', count: 1 }] };

describe('a payload is checked by the JSON Schema of its type', () => {
  const schema = payloadJsonSchema(order);

  test('what fits passes', () => {
    expect(said(schema, GOOD)).toEqual([]);
    expect(said(schema, { ...GOOD, note: null, kind: 'cash', more: 1, pay: { by: 'cash', box: 1 } })).toEqual([]);
  });

  const cases: [what: string, value: unknown, said: string[]][] = [
    ['another kind', 5, ['payload: expected an object, got 5']],
    ['a field of another kind', { ...GOOD, amount: '5' }, ['payload.amount: expected a number, got "5"']],
    ['a number out of range', { ...GOOD, amount: 0 }, ['payload.amount: expected a number greater than 0, got 0']],
    [
      'a number over its limit',
      { ...GOOD, amount: 101 },
      ['payload.amount: expected a number of at most 100, got 101'],
    ],
    ['a short string', { ...GOOD, id: 'a' }, ['payload.id: expected at least 3 characters, got "a"']],
    ['a long string', { ...GOOD, id: 'abcdef' }, ['payload.id: expected at most 5 characters, got "abcdef"']],
    ['an empty list', { ...GOOD, lines: [] }, ['payload.lines: expected at least 1 item, got []']],
    [
      'an item',
      { ...GOOD, lines: [{ sku: 'x', count: 1.5 }] },
      ['payload.lines[0].count: expected a whole number, got 1.5'],
    ],
    ['a word of a list', { ...GOOD, kind: 'coin' }, ['payload.kind: expected one of "card", "cash", got "coin"']],
    ['one of two kinds', { ...GOOD, note: 5 }, ['payload.note: expected a string or null, got 5']],
    [
      'a field of the form that was meant',
      { ...GOOD, pay: { by: 'iban' } },
      ['payload.pay.iban: expected a string, got nothing'],
    ],
  ];
  test.each(cases)('%s is named with its path', (_, value, messages) => {
    expect(said(schema, value)).toEqual(messages);
  });

  test('every missing field is named', () => {
    expect(said(schema, { lines: [{}] })).toEqual([
      'payload.id: expected a string, got nothing',
      'payload.amount: expected a number, got nothing',
      'payload.lines[0].sku: expected a string, got nothing',
      'payload.lines[0].count: expected a whole number, got nothing',
    ]);
  });

  test('a schema that refers to itself is followed', () => {
    const tree = z.object({
      name: z.string(),
      get children() {
        return z.array(tree).optional();
      },
    });
    const schema = payloadJsonSchema(tree);
    expect(said(schema, { name: 'a', children: [{ name: 'b', children: [] }] })).toEqual([]);
    expect(said(schema, { name: 'a', children: [{ name: 'b', children: [{}] }] })).toEqual([
      'payload.children[0].children[0].name: expected a string, got nothing',
    ]);
  });

  test('the error is one of the API, with the field, the value and the type', () => {
    const type = { type: 'bank.wire', hash: 'a', defaults: {}, payloadSchema: schema };
    expect(() =>
      checkPayloadText(type, '{"id":"a-1","amount":"5","lines":[{"sku":"x","count":1}]}', 'jobs[3].payload'),
    ).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: 'jobs[3].payload.amount: expected a number, got "5" (job type "bank.wire")',
        details: { issues: [{ field: 'jobs[3].payload.amount', message: 'expected a number', value: '"5"' }] },
      }),
    );
    // the database says where it is not JSON
    expect(() => checkPayloadText(type, '{', 'payload')).not.toThrow();
  });
});

describe('a schema of a worker cannot harm a server', () => {
  const harmless: [what: string, schema: unknown, value: unknown][] = [
    ['a pattern that takes forever', { type: 'string', pattern: '^(a+)+$' }, `${'a'.repeat(50_000)}!`],
    ['a reference to itself', { $ref: '#' }, {}],
    [
      'references in a circle',
      { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
      {},
    ],
    [
      'branches that double with each level',
      { $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }, false] } }, $ref: '#/$defs/a' },
      {},
    ],
    ['a reference to another host', { $ref: 'https://example.com/schema' }, {}],
    ['a reference to nothing', { $ref: '#/$defs/none' }, {}],
    [
      'names of a prototype',
      { required: [], properties: { __proto__: { type: 'string' } }, $ref: '#/constructor' },
      {},
    ],
    ['nonsense', { type: 7, enum: 'x', required: 5, properties: [], items: 'y', anyOf: {} }, { a: 1 }],
    ['no schema', 'text', 1],
  ];
  test.each(harmless)('%s', (_, schema, value) => {
    const startedAt = performance.now();
    expect(findMismatches(schema, value, 'payload')).toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(1000);
  });

  test('a large payload and a large schema take a bounded time', () => {
    const anyOf = Array.from({ length: 500 }, (_, index) => ({ maxLength: 500_000 + index }));
    const schema = { type: 'array', items: { anyOf } };
    const value = Array.from({ length: 20 }, () => 'é'.repeat(900_000));
    const startedAt = performance.now();
    findMismatches(schema, value, 'payload');
    expect(performance.now() - startedAt).toBeLessThan(3000);
  });
});

describe('the check refuses only what the schema itself refuses', () => {
  /** Schemas that convert, trim, catch and so on: JSON Schema says less about them than they do. */
  const schemas: [what: string, schema: z.ZodType][] = [
    ['a coerced number', z.object({ a: z.coerce.number() })],
    ['a caught string', z.object({ a: z.string().catch('x') })],
    ['a trimmed string', z.object({ a: z.string().trim().max(2) })],
    ['a preprocessed value', z.object({ a: z.preprocess(Number, z.number().min(3)) })],
    ['a transformed value', z.object({ a: z.string().transform(Number) })],
    ['a default', z.object({ a: z.number().default(1), b: z.string().prefault('x') })],
    ['a date that is a string', z.object({ a: z.coerce.date() })],
    ['an optional payload', z.object({ a: z.number() }).optional()],
    ['any key', z.record(z.string(), z.number())],
    ['a strict object', z.strictObject({ a: z.number(), b: z.string().optional() })],
    ['a tuple', z.tuple([z.number(), z.string()]).rest(z.boolean())],
    ['a union', z.union([z.number().min(2), z.string().max(1), z.object({ a: z.null() })])],
    ['an intersection', z.intersection(z.object({ a: z.number() }), z.object({ b: z.string() }))],
    ['unknown fields', z.looseObject({ a: z.unknown().describe('anything') })],
    ['a stringbool', z.object({ a: z.stringbool() })],
  ];
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.record({ a: fc.jsonValue({ maxDepth: 1 }), b: fc.jsonValue({ maxDepth: 1 }) }, { requiredKeys: [] }),
    fc.array(fc.oneof(fc.integer(), fc.string(), fc.boolean()), { maxLength: 4 }),
  );

  test.each(schemas)('%s', (_, schema) => {
    const jsonSchema = payloadJsonSchema(schema);
    fc.assert(
      fc.property(value, (payload) => {
        const isRefused = findMismatches(jsonSchema ?? {}, payload, 'payload').length > 0;
        const accepts = (given: unknown) => schema.safeParse(given).success;
        if (isRefused) expect(accepts(payload) || (payload === null && accepts(undefined))).toBe(false);
      }),
      { numRuns: 300 },
    );
  });

  test('a schema of the usual size stays under the limit of a hello', () => {
    expect(JSON.stringify(payloadJsonSchema(order)).length).toBeLessThan(LIMITS.payloadSchemaLength / 20);
  });
});
