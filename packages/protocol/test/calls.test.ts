import fc from 'fast-check';
import { expect, test } from 'vitest';
import { answerText, CALLED_ROUTES, callText, parseAnswer, parseCall } from '../src/index.js';

const numbers = fc.integer({ min: 0, max: 999_999_999_999_999 });

test('a call that was written is read as it was meant', () => {
  fc.assert(
    fc.property(numbers, fc.constantFrom(...CALLED_ROUTES), fc.string(), (number, route, body) => {
      expect(parseCall(callText(number, route, body))).toEqual({ number, route, era: undefined, body });
    }),
  );
});

test('a call with an era is read as it was meant', () => {
  fc.assert(
    fc.property(numbers, fc.constantFrom(...CALLED_ROUTES), numbers, fc.string(), (number, route, era, body) => {
      expect(parseCall(callText(number, route, body, era))).toEqual({ number, route, era, body });
    }),
  );
});

test('an answer that was written is read as it was meant', () => {
  const more = fc.oneof(fc.constant({}), fc.record({ retryAfterS: fc.nat() }), fc.record({ era: numbers }));
  fc.assert(
    fc.property(numbers, fc.integer({ min: 100, max: 599 }), more, fc.string(), (number, status, given, body) => {
      const frame = { number, status, retryAfterS: undefined, era: undefined, body, ...given };
      expect(parseAnswer(answerText(frame))).toEqual(frame);
    }),
  );
});

test('a call may lack its body', () => {
  expect(parseCall('7 POST /api/v1/jobs')).toEqual({
    number: 7,
    route: 'enqueueJob',
    era: undefined,
    body: '',
  });
});

test.each([
  [''],
  ['\n{}'],
  ['POST /api/v1/jobs\n{}'],
  [' POST /api/v1/jobs\n{}'],
  ['x POST /api/v1/jobs\n{}'],
  ['-1 POST /api/v1/jobs\n{}'],
  ['1.5 POST /api/v1/jobs\n{}'],
  ['1234567890123456 POST /api/v1/jobs\n{}'],
  ['1  POST /api/v1/jobs\n{}'],
  ['1 POST /api/v1/jobs \n{}'],
  ['1 GET /api/v1/jobs\n{}'],
  ['1 POST /api/v1/jobs/\n{}'],
  ['1 POST /api/v1/jobs5\n{}'],
  ['1 POST /api/v1/jobs x\n{}'],
  ['1 POST /api/v1/jobs 5 6\n{}'],
  ['1 POST /api/v1/jobs -5\n{}'],
  ['1 POST /api/v1/jobs/batch5\n{}'],
  ['1 POST /api/v1/jobs/batch x\n{}'],
  ['1\n{"a": 1 POST /api/v1/jobs}'],
])('%j is no call', (text) => {
  expect(parseCall(text)).toBeUndefined();
});

test.each([
  [''],
  ['what?'],
  ['1'],
  ['1 20\n{}'],
  ['1 2011\n{}'],
  ['1 201 \n{}'],
  ['1 201 x\n{}'],
  ['1 201x5\n{}'],
  ['1 201 era\n{}'],
  ['1 201 era \n{}'],
  ['1 201 era x\n{}'],
  ['1 201 era5\n{}'],
  ['x 201\n{}'],
  ['1 abc\n{}'],
  ['1\n201 {}'],
  ['\n1 201'],
])('%j is no answer', (text) => {
  expect(parseAnswer(text)).toBeUndefined();
});
