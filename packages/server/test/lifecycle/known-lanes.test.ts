import { expect, test } from 'vitest';
import { createKnownLanes } from '../../src/lifecycle/known-lanes.js';

test('a lane is known from when it was noted, for a short while', () => {
  let now = 1_000_000;
  const lanes = createKnownLanes(() => now);
  expect(lanes.has('mail', 'send')).toBe(false);
  lanes.add('mail', 'send');
  expect(lanes.has('mail', 'send')).toBe(true);
  expect(lanes.has('send', 'mail')).toBe(false);
  now += 9_999;
  lanes.add('mail', 'print');
  expect(lanes.has('mail', 'send')).toBe(true);
  now += 1;
  expect(lanes.has('mail', 'send')).toBe(false);
  expect(lanes.has('mail', 'print')).toBe(false);
  lanes.add('mail', 'print');
  expect(lanes.has('mail', 'print')).toBe(true);
  expect(lanes.has('mail', 'send')).toBe(false);
});

test('all are forgotten when that is asked for', () => {
  const lanes = createKnownLanes(() => 1);
  lanes.add('mail', 'send');
  lanes.forget();
  expect(lanes.has('mail', 'send')).toBe(false);
  lanes.add('mail', 'send');
  expect(lanes.has('mail', 'send')).toBe(true);
});

test('of too many, all are forgotten', () => {
  const lanes = createKnownLanes(() => 1);
  for (let index = 0; index <= 10_000; index++) lanes.add('mail', `type-${index}`);
  expect(lanes.has('mail', 'type-0')).toBe(false);
  expect(lanes.has('mail', 'type-10000')).toBe(true);
});
