import { expect, test } from 'vitest';
import { createAddressReader } from '../../src/access/client-address.js';

const request = (remoteAddress: string, forwarded?: string) => ({
  headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  socket: { remoteAddress },
});

test('without trusted proxies, what a client says of its address does not count', () => {
  const addressOf = createAddressReader([]);
  expect(addressOf(request('203.0.113.7', '10.0.0.1'))).toBe('203.0.113.7');
  expect(addressOf(request('::ffff:203.0.113.7'))).toBe('203.0.113.7');
});

test.each([
  ['a stranger that sends the header itself', '203.0.113.7', '198.51.100.1', '203.0.113.7'],
  ['one proxy', '10.0.0.1', '203.0.113.7', '203.0.113.7'],
  ['two proxies', '10.0.0.1', '203.0.113.7, 10.9.9.9', '203.0.113.7'],
  ['an invented entry before the true one', '10.0.0.1', '127.0.0.1, 203.0.113.7', '203.0.113.7'],
  ['a proxy that is not trusted', '10.0.0.1', '203.0.113.7, 192.0.2.1', '192.0.2.1'],
  ['no header', '10.0.0.1', undefined, '10.0.0.1'],
  ['a header that is no address', '10.0.0.1', '203.0.113.7, junk', '10.0.0.1'],
  ['IPv6', '2001:db8::1', '2001:db8:1::7', '2001:db8:1::7'],
  ['a proxy in the IPv6 form of its address', '::ffff:10.0.0.1', '::ffff:203.0.113.7', '203.0.113.7'],
])('the address comes from what trusted proxies have appended: %s', (_what, peer, forwarded, expected) => {
  const addressOf = createAddressReader(['10.0.0.0/8', '2001:db8::1']);
  expect(addressOf(request(peer, forwarded))).toBe(expected);
});
