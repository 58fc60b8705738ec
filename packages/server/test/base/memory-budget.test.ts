import { expect, test } from 'vitest';
import { createMemoryBudget } from '../../src/base/memory-budget.js';

test('the memory for requests in progress is shared by all: what does not fit is refused until others have ended; what is alone always fits', () => {
  const memory = createMemoryBudget(1000);
  const [first, second] = [memory.share(), memory.share()];
  first.take(600);
  expect(() => second.check(401)).toThrow(
    'the requests in progress on this server have reached its limit of 1000 bytes',
  );
  expect(() => second.take(401)).toThrow('limit of 1000 bytes');
  second.take(400);
  first.release();
  first.release();
  second.take(5000);
  expect(() => first.take(1)).toThrow('limit of 1000 bytes');
  second.release();
  first.take(1000);
});
