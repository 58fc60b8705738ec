import type { Assignment } from '@drover/protocol';
import { expect, test } from 'vitest';
import { defineJob } from '../../src/define-job.js';
import { strictOptions } from '../../src/worker/strict-options.js';

const run = () => {};
const strict = strictOptions([
  defineJob({ type: 'wire', onLost: 'hold', timeout: '5s', run }),
  defineJob({ type: 'plain', run }),
  defineJob({ type: 'timed', timeout: '1s', run }),
]);
const assigned = (given: Partial<Assignment>): Assignment => ({
  ...{ id: 'a', fence: 1, type: 'plain', queue: 'default', attempt: 1, maxAttempts: 1, payload: null },
  ...given,
});

test('where a job and its definition disagree, it is held and has the shorter timeout', () => {
  const optionsOf = (given: Partial<Assignment>) => strict(assigned(given)).options;
  expect(optionsOf({ type: 'wire' })).toEqual({ onLost: 'hold', timeout: 5000 });
  expect(optionsOf({ type: 'wire', options: { onLost: 'rerun', timeout: 9000, retention: 5 } })).toEqual({
    ...{ onLost: 'hold', timeout: 5000, retention: 5 },
  });
  expect(optionsOf({ type: 'timed', options: { timeout: 500 } })).toEqual({ timeout: 500 });
  // the server says that the job is held
  expect(optionsOf({ hold: true, options: { timeout: 7 } })).toEqual({ onLost: 'hold', timeout: 7 });
});

test('what agrees is passed on as it came', () => {
  for (const same of [
    assigned({}),
    assigned({ type: 'wire', hold: true, options: { onLost: 'hold', timeout: 5000 } }),
    assigned({ type: 'elsewhere', options: { onLost: 'rerun' } }),
  ]) {
    expect(strict(same)).toBe(same);
  }
});
