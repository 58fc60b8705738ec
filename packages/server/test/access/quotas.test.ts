/** What one caller may take of a server, so that it does not take what others need. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Principal, UNLIMITED } from '../../src/access/principal.js';
import { createRequestRate } from '../../src/access/request-rate.js';
import { createMemoryBudget } from '../../src/base/memory-budget.js';
import { type ApiBench, createApiBench, errorOf, TOKENS, tokenOf } from '../api/api-bench.js';

const principal = (name: string): Principal => ({ name, role: 'client', kind: 'configured', ...UNLIMITED });
let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS, tokenRequests: 5 });
});
afterAll(() => api.close());

test('a caller that makes too many requests in a second is told when to return, and others are served', async () => {
  const statuses: number[] = [];
  for (let count = 0; count < 8; count++) {
    const answer = await api.call('/api/v1/pauses', { token: tokenOf('viewer') });
    statuses.push(answer.status);
    if (answer.status === 200) continue;
    expect(answer.headers['retry-after']).toBe('1');
    expect(errorOf(answer)).toMatchObject({
      code: 'overloaded',
      message: '"the-viewer" makes more than 5 requests per second on this server, which is the limit',
    });
  }
  expect(statuses).toContain(429);
  expect((await api.call('/api/v1/pauses', { token: tokenOf('operator') })).status).toBe(200);
  expect((await api.call('/api/ping')).status).toBe(200);
});

test('the rate is counted for each caller, and a quiet one gets no more than the requests of a second', () => {
  let nowMs = 0;
  const check = createRequestRate(2, () => nowMs);
  const [one, other] = [principal('one'), principal('other')];
  check(one);
  check(one);
  expect(() => check(one)).toThrow('"one" makes more than 2 requests per second');
  check(other);
  nowMs = 500;
  check(one);
  expect(() => check(one)).toThrow();
  nowMs = 60_000;
  check(one);
  check(one);
  expect(() => check(one)).toThrow();
});

test('the requests of one caller take a part of the memory for requests, and leave the rest to others', () => {
  const memory = createMemoryBudget(100, 60);
  const [one, other] = [principal('one'), principal('other')];
  const first = memory.share(one);
  first.take(50);
  const second = memory.share(one);
  expect(() => second.take(11)).toThrow('the requests in progress of this caller have reached its limit of 60 bytes');
  second.take(10);
  memory.share(other).take(40);
  first.release();
  second.release();
  // a request that is alone always has room
  memory.share(one).take(59);
});
