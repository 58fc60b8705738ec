import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSecret } from '../../src/access/token-secret.js';
import { createWrongTokens } from '../../src/access/wrong-tokens.js';
import { type ApiBench, createApiBench, errorOf, TOKENS, tokenOf } from '../api/api-bench.js';

const LIMIT = 5;
let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS, wrongTokenLimit: LIMIT, trustedProxies: ['127.0.0.1'] });
});
afterAll(() => api.close());

const from = (address: string, token: string) =>
  api.call('/api/v1/jobs', { token, headers: { 'x-forwarded-for': address } });

test('an address that sends too many wrong tokens is refused for a minute, and harms no other address', async () => {
  for (let count = 0; count < LIMIT; count++) {
    const guess = count % 2 === 0 ? `guess-${count}-0123456789` : createSecret(newId()).secret;
    expect((await from('203.0.113.7', guess)).status).toBe(401);
  }
  const refused = await from('203.0.113.7', createSecret(newId()).secret);
  expect(refused.status).toBe(429);
  expect(errorOf(refused)).toMatchObject({
    code: 'too_many_attempts',
    message: expect.stringMatching(/^5 wrong tokens came from 203\.0\.113\.7 within a minute: try again in \d+ s$/),
  });
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(30);
  expect((await from('203.0.113.7', 'another-guess-0123456789')).status).toBe(429);
  expect((await from('203.0.113.8', 'another-guess-0123456789')).status).toBe(401);
  // an honest client behind the same address
  expect((await from('203.0.113.7', tokenOf('viewer'))).status).toBe(200);
  const metrics = await api.call('/metrics', { token: tokenOf('viewer') });
  expect(metrics.text).toContain(`drover_wrong_tokens_total ${LIMIT + 1}`);
});

test('each address is told once a minute, and when it reaches the limit', () => {
  let nowMs = 0;
  const told: string[] = [];
  const wrong = createWrongTokens({
    ...{ limit: 3, count() {}, now: () => nowMs },
    tell: ({ address, count }) => told.push(`${address} ${count}`),
  });
  for (let count = 0; count < 3; count++) wrong.note('a');
  wrong.note('b');
  expect(() => wrong.check('a')).toThrow('3 wrong tokens came from a within a minute: try again in 60 s');
  nowMs += 60_000;
  wrong.check('a');
  wrong.note('a');
  expect(told).toEqual(['a 1', 'a 3', 'b 1', 'a 1']);
});

test('the memory for addresses is bounded', () => {
  const wrong = createWrongTokens({ limit: 1, count() {}, tell() {}, now: () => 0 });
  for (let place = 0; place <= 10_000; place++) wrong.note(String(place));
  wrong.check('0');
  expect(() => wrong.check('10000')).toThrow();
});
