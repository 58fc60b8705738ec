/** What a worker tells servers about its job types. */
import { LIMITS } from '@drover/protocol';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { defineJob } from '../../src/define-job.js';
import type { Logger } from '../../src/logger.js';
import type { StandardSchema } from '../../src/standard-schema.js';
import { typeDefinitions } from '../../src/worker/type-definitions.js';

const run = () => {};
let logged: object[] = [];
const log = (fields: object) => void logged.push(fields);
const logger: Logger = { debug: log, info: log, warn: log, error: log };

/** The registered JSON Schema of a type with this payload. */
function schemaOf(payload: StandardSchema): unknown {
  logged = [];
  const [definition] = typeDefinitions([defineJob({ type: 'wire', payload, run })], logger);
  return definition?.payloadSchema === undefined ? undefined : JSON.parse(definition.payloadSchema);
}

/** A schema of another library, which accepts strings. */
function standard(more: object, isAsync = false): StandardSchema {
  const validate = (value: unknown) =>
    typeof value === 'string' ? { value } : { issues: [{ message: 'expected a string' }] };
  const own = { version: 1, vendor: 'other', validate: isAsync ? async (value: unknown) => validate(value) : validate };
  return { '~standard': { ...own, ...more } } as StandardSchema;
}

test('the defaults of the definition are registered, with durations in milliseconds', () => {
  const wire = defineJob({ type: 'wire', onLost: 'hold', timeout: '5s', tags: ['money'], onFailure: run, run });
  expect(typeDefinitions([wire], logger)).toEqual([
    { type: 'wire', defaults: { onLost: 'hold', timeout: 5000, tags: ['money'], onFailure: 'wire/on-failure' } },
  ]);
});

describe('the JSON Schema of a payload', () => {
  test('comes from zod, and says what goes in, not what comes out', () => {
    expect(
      schemaOf(z.object({ at: z.iso.datetime().transform((text) => new Date(text)), n: z.number().default(1) })),
    ).toMatchObject({
      ...{ type: 'object', properties: { at: { type: 'string' }, n: { type: 'number' } }, required: ['at'] },
    });
  });

  test('comes from any library with Standard JSON Schema', () => {
    const input = (options: { target: string }) => ({ $schema: options.target, type: 'string' });
    expect(schemaOf(standard({ jsonSchema: { input } }))).toEqual({ type: 'string' });
  });

  test('takes null where the payload may be omitted, and where that is not known', () => {
    expect(schemaOf(z.object({ a: z.number() }).optional())).toMatchObject({ type: ['object', 'null'] });
    expect(schemaOf(z.union([z.object({ a: z.number() }), z.array(z.int())]).optional())).toMatchObject({
      anyOf: [{ type: 'object' }, { type: 'array' }, { type: 'null' }],
    });
    const input = () => ({ type: 'string' });
    expect(schemaOf(standard({ jsonSchema: { input } }, true))).toEqual({ type: ['string', 'null'] });
  });

  test('is left out if the library has none, or cannot describe this one', () => {
    expect(schemaOf(standard({}))).toBeUndefined();
    const input = () => {
      throw new Error('not representable');
    };
    expect(schemaOf(standard({ jsonSchema: { input } }))).toBeUndefined();
    expect(schemaOf(z.enum(['a', 'b']).optional())).toBeUndefined();
    expect(logged).toEqual([]);
  });

  test('is left out if it is too large, and the log says so', () => {
    const words = z.enum(Array.from({ length: 5000 }, (_, index) => `word-${index}`) as [string]);
    expect(schemaOf(z.object({ words }))).toBeUndefined();
    expect(logged).toMatchObject([{ event: 'type.schema-too-large', type: 'wire', limit: LIMITS.payloadSchemaLength }]);
  });
});
