import { readFile } from 'node:fs/promises';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { defineJob, type JobDefinition } from '../src/index.js';
import { SDK_VERSION } from '../src/version.js';

describe('defineJob', () => {
  it('fills durations in milliseconds and keeps the defaults ready to send', () => {
    const job = defineJob({ type: 'mail', queue: 'slow', timeout: '30s', backoff: { kind: 'fixed', delay: '2m' } });
    expect(job.defaults).toEqual({
      type: 'mail',
      queue: 'slow',
      timeout: 30_000,
      backoff: { kind: 'fixed', delay: 120_000, jitter: 0 },
    });
    expect(JSON.parse(`{${job.encodedDefaults}}`)).toEqual(job.defaults);
  });

  it('answers an unknown option with the nearest known one', () => {
    const options = { type: 'mail', maxAttemps: 3 };
    expect(() => defineJob(options)).toThrow('defineJob: unknown option "maxAttemps"; did you mean "maxAttempts"?');
  });

  it('names the field, the value and what was expected', () => {
    expect(() => defineJob({ type: 'two words' })).toThrow(/type: expected a name .*got "two words"/);
    expect(() => defineJob({ type: 'mail', priority: 1e9 })).toThrow(/priority: .*got 1000000000/);
    expect(() => defineJob({ type: 'mail', payload: {} as never })).toThrow(/payload: expected a Standard Schema/);
  });

  it('takes the types of an enqueue and of a handler from the schemas', () => {
    const job = defineJob({
      type: 'mail',
      payload: z.object({ at: z.string().transform((text) => new Date(text)) }),
      result: z.object({ sent: z.boolean() }),
    });
    expectTypeOf(job).toEqualTypeOf<
      JobDefinition<{ at: string }, { sent: boolean }, { at: Date }, { sent: boolean }>
    >();
  });

  it('takes types without schemas', () => {
    const job = defineJob<{ to: string }, number>({ type: 'mail' });
    expectTypeOf(job).toEqualTypeOf<JobDefinition<{ to: string }, number>>();
  });
});

it('the version a worker tells is that of the package', async () => {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  expect((JSON.parse(text) as { version: string }).version).toBe(SDK_VERSION);
});
