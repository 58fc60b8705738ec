import fc from 'fast-check';
import { expect, test } from 'vitest';
import { answerText, callText, parseAnswer, parseCall } from '../src/index.js';

const numbers = fc.integer({ min: 0, max: 999_999_999_999_999 });

test('a call that was written is read as it was meant', () => {
  fc.assert(
    fc.property(numbers, fc.string({ unit: 'binary' }), (number, body) => {
      expect(parseCall(callText(number, body))).toEqual({ number, body });
    }),
  );
});

test('an answer that was written is read as it was meant', () => {
  const seconds = fc.option(fc.nat(), { nil: undefined });
  fc.assert(
    fc.property(numbers, fc.integer({ min: 100, max: 599 }), seconds, fc.string(), (number, status, more, body) => {
      const frame = { number, status, retryAfterS: more, body };
      expect(parseAnswer(answerText(frame))).toEqual(frame);
    }),
  );
});

test('a frame may lack its body, and a body may have any lines', () => {
  expect(parseCall('7')).toEqual({ number: 7, body: '' });
  expect(parseCall('7\n')).toEqual({ number: 7, body: '' });
  expect(parseCall('7\n\n8\n')).toEqual({ number: 7, body: '\n8\n' });
  expect(parseAnswer('7 201')).toEqual({ number: 7, status: 201, retryAfterS: undefined, body: '' });
});

test.each([
  [''],
  ['\n{}'],
  [' 1\n{}'],
  ['1 \n{}'],
  ['1\r\n{}'],
  ['x\n{}'],
  ['-1\n{}'],
  ['1.5\n{}'],
  ['1e3\n{}'],
  ['1234567890123456\n{}'],
  ['1 POST /api/v1/jobs/bulk\n{}'],
  ['{"type":"a"}\n1'],
])('%j is not a call', (text) => {
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
  ['1 201 5 6\n{}'],
  ['1 201 -5\n{}'],
  ['x 201\n{}'],
  ['1 abc\n{}'],
  ['1\n201 {}'],
  ['\n1 201'],
])('%j is not an answer', (text) => {
  expect(parseAnswer(text)).toBeUndefined();
});
