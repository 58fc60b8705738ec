/** The names in a client's certificate, in the form of the setting `tlsClients`: `DNS:a`, `URI:b`, `IP:c`, `email:d`. */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** One name as Node prints it: quoted as JSON if it contains a character that could separate names. */
const NAME = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]+)(?:, |$)/y;
/** By what Node calls them. Names of other kinds are left out. */
const KINDS: Readonly<Record<string, string>> = { DNS: 'DNS', URI: 'URI', email: 'email', 'IP Address': 'IP' };

/** Empty unless the certificate was verified. */
export function certificateNames(socket: Socket): string[] {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return [];
  return namesIn(socket.getPeerX509Certificate()?.subjectAltName ?? '');
}

export function namesIn(text: string): string[] {
  const names: string[] = [];
  const pattern = new RegExp(NAME);
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    // Not a list that can be read safely up to its end: nothing in it is trusted.
    if (match === null) return [];
    const [, kind = '', value = ''] = match;
    if (!Object.hasOwn(KINDS, kind)) continue;
    names.push(normalName(`${KINDS[kind]}:${value.startsWith('"') ? JSON.parse(value) : value}`));
  }
  return names;
}

/** Host names are the same in upper and lower case. */
export function normalName(name: string): string {
  return name.startsWith('DNS:') ? `DNS:${name.slice(4).toLowerCase()}` : name;
}
