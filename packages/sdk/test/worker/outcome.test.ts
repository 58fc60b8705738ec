import type { Assignment } from '@drover/protocol';
import { LIMITS } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { PermanentError, RetryAfter, snooze } from '../../src/index.js';
import type { StopReason } from '../../src/worker/attempt.js';
import { type Ending, outcomeOfError, outcomeOfReturn } from '../../src/worker/outcome.js';

const assignment: Assignment = {
  id: '01890000-0000-7000-8000-000000000000',
  fence: 3,
  type: 'mail',
  queue: 'default',
  attempt: 2,
  maxAttempts: 10,
  payload: null,
  options: {
    timeout: 50,
    backoff: { kind: 'exponential', base: 100, factor: 3, max: 10_000, jitter: 0 },
  },
};

const ending = (stopReason?: StopReason): Ending => ({ assignment, runMs: 5, stopReason, random: 0.5 });
const outcomeOfResult = (stopReason: StopReason | undefined, result: string | undefined) =>
  outcomeOfReturn(ending(stopReason), { result }, undefined);

describe('a handler that throws', () => {
  it('is tried again after its back-off', () => {
    expect(outcomeOfError(ending(), new Error('broken'))).toMatchObject({
      kind: 'failed',
      fence: 3,
      retryInMs: 300,
      error: { name: 'Error', message: 'broken', stack: expect.stringContaining('outcome.test') },
    });
  });

  it('is not tried again after a PermanentError', () => {
    const outcome = outcomeOfError(ending(), new PermanentError('never'));
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'permanent' } });
    expect(outcome).not.toHaveProperty('retryInMs');
  });

  it('is tried again when it says so itself', () => {
    expect(outcomeOfError(ending(), new RetryAfter('2m'))).toMatchObject({ kind: 'failed', retryInMs: 120_000 });
    expect(outcomeOfError(ending(), snooze('5m'))).toMatchObject({ kind: 'snoozed', inMs: 300_000 });
  });

  it.each([
    ['cancelled', { kind: 'cancelled' }],
    ['expired', { kind: 'failed', error: { code: 'expired' } }],
    ['timeout', { kind: 'failed', retryInMs: 300, error: { code: 'timeout' } }],
    ['shutdown', { kind: 'released', runMs: expect.any(Number) }],
  ] as const)('after %s is reported as such', (reason, expected) => {
    expect(outcomeOfError(ending(reason), new Error('aborted'))).toMatchObject(expected);
  });

  it('has no outcome once its job is lost', () => {
    expect(outcomeOfError(ending('lost'), new Error('aborted'))).toBeUndefined();
  });

  it('is described within the limits, whatever it throws', () => {
    const long = outcomeOfError(ending(), new Error(`\u0000${'x'.repeat(LIMITS.errorMessageLength)}`));
    expect(long).toMatchObject({ error: { message: expect.not.stringContaining('\u0000') } });
    expect((long as { error: { message: string } }).error.message).toHaveLength(LIMITS.errorMessageLength);
    expect(outcomeOfError(ending(), 'text')).toMatchObject({ error: { name: 'Error', message: 'text' } });
    expect(outcomeOfError(ending(), 1n)).toMatchObject({ error: { message: 'thrown: [object BigInt]' } });
    const caused = outcomeOfError(ending(), new Error('outer', { cause: new Error('inner') }));
    expect(caused).toMatchObject({ error: { stack: expect.stringContaining('Caused by: Error: inner') } });
  });
});

describe('a handler that returns', () => {
  it('succeeds with its result as JSON text', () => {
    expect(outcomeOfResult(undefined, '{"a":1}')).toMatchObject({ kind: 'succeeded', result: '{"a":1}' });
    expect(outcomeOfResult(undefined, undefined)).not.toHaveProperty('result');
  });

  it('succeeds also after a cancel or in a shutdown, but not past its time', () => {
    expect(outcomeOfResult('cancelled', '1')).toMatchObject({ kind: 'succeeded' });
    expect(outcomeOfResult('shutdown', '1')).toMatchObject({ kind: 'succeeded' });
    expect(outcomeOfResult('timeout', '1')).toMatchObject({ error: { code: 'timeout' } });
    expect(outcomeOfResult('lost', '1')).toBeUndefined();
  });

  it('may ask to be run again later', () => {
    const outcome = outcomeOfReturn(ending(), { snooze: snooze(10) }, undefined);
    expect(outcome).toMatchObject({ kind: 'snoozed', inMs: 10 });
  });

  it('fails without further attempts if its result does not match', () => {
    const outcome = outcomeOfReturn(ending(), { mismatch: new Error('result: expected a number') }, undefined);
    expect(outcome).toMatchObject({
      kind: 'failed',
      error: { code: 'invalid_result', message: 'result: expected a number' },
    });
    expect(outcome).not.toHaveProperty('retryInMs');
  });
});
