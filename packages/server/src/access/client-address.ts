/**
 * The address of a client. Behind proxies it is in `x-forwarded-for`, to which each proxy appends the address that it saw. Only
 * entries that were appended by a trusted proxy count, because a client can send the header itself.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIP } from 'node:net';

type Request = {
  headers: IncomingHttpHeaders;
  socket: { remoteAddress?: string | undefined };
};

export type AddressOf = (request: Request) => string;

/** A connection that has ended has no address. */
const UNKNOWN = 'unknown';
const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** `trusted`: addresses and ranges such as `10.0.0.0/8`. */
export function createAddressReader(trusted: readonly string[]): AddressOf {
  if (trusted.length === 0) return ({ socket }) => plain(socket.remoteAddress ?? UNKNOWN);
  const proxies = blockListOf(trusted);
  const isProxy = (address: string) => isIP(address) !== 0 && proxies.check(address, familyOf(address));
  return ({ headers, socket }) => {
    let address = plain(socket.remoteAddress ?? UNKNOWN);
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    for (let place = forwarded.length - 1; place >= 0 && isProxy(address); place--) {
      const before = plain((forwarded[place] as string).trim());
      if (isIP(before) === 0) break;
      address = before;
    }
    return address;
  };
}

function blockListOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    if (bits === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(bits), familyOf(address));
  }
  return list;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/** A server that listens on `::` sees IPv4 addresses in their IPv6 form. */
function plain(address: string): string {
  return MAPPED_IPV4.exec(address)?.[1] ?? address;
}
