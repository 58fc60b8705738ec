import { expect, test } from 'vitest';
import { isPassing, toDatabaseError } from '../../src/db/database-error.js';

const withCode = (code: string) => Object.assign(new Error('it failed'), { code });

test.each([
  ['EPIPE', 'unknown', true],
  ['ECONNRESET', 'unknown', true],
  ['57P01', 'unknown', true],
  ['08006', 'unknown', true],
  ['25006', 'unavailable', true],
  ['53300', 'unavailable', true],
  ['40P01', 'refused', true],
  ['40001', 'refused', true],
  ['22P02', 'refused', false],
  ['P0001', 'refused', false],
])('a statement that ends with %s is %s', (code, kind, passing) => {
  const error = toDatabaseError(withCode(code), 'sent');
  expect(error.kind).toBe(kind);
  expect(isPassing(error)).toBe(passing);
});

test('what was never sent has changed nothing', () => {
  expect(toDatabaseError(withCode('ECONNREFUSED'), 'not sent').kind).toBe('unavailable');
});
