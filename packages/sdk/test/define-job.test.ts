import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { defineJob, handle } from '../src/index.js';
import { JOB } from '../src/job-definition.js';
import { SDK_VERSION } from '../src/version.js';

describe('defineJob', () => {
  it('fills durations in milliseconds and keeps the defaults ready to send', () => {
    const job = defineJob({ type: 'mail', queue: 'slow', timeout: '30s', backoff: { kind: 'fixed', delay: '2m' } });
    const { defaults, encodedDefaults } = job[JOB];
    expect(defaults).toEqual({
      complete: true,
      type: 'mail',
      queue: 'slow',
      timeout: 30_000,
      backoff: { kind: 'fixed', delay: 120_000, jitter: 0 },
    });
    expect(JSON.parse(`{${encodedDefaults}}`)).toEqual(defaults);
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

  it('takes a handler with the definition, or later', () => {
    const run = () => 1;
    const whole = defineJob({ type: 'mail', run, module: import.meta.url });
    const definition = defineJob({ type: 'mail', queue: 'slow' });
    const ready = handle(definition, run);
    expect(whole.run).toBe(run);
    expect(whole[JOB].module).toBe(import.meta.url);
    expect(ready).toMatchObject({ type: 'mail', run });
    expect(ready[JOB].defaults).toEqual({ type: 'mail', complete: true, queue: 'slow' });
    expect(definition).not.toHaveProperty('run');
  });

  it('refuses what is no handler, and a module without one', () => {
    expect(() => defineJob({ type: 'mail', run: 5 as never })).toThrow('run: expected a function, got 5');
    expect(() => defineJob({ type: 'mail', module: import.meta.url } as never)).toThrow(
      'module: expected no module without run',
    );
    expect(() => handle({ type: 'mail' } as never, () => 1)).toThrow(
      'definition: expected the return value of defineJob',
    );
  });
});

it('the version a worker tells is that of the package', async () => {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  expect((JSON.parse(text) as { version: string }).version).toBe(SDK_VERSION);
});
