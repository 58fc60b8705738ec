/** The base addresses of the servers: from the option, from `DROVER_URL`, or the default. */
import { DroverError } from '@drover/protocol/errors';

const DEFAULT_URL = 'http://127.0.0.1:8420';

/** Servers that one client or worker remembers. */
export const MAX_SERVERS = 100;

/** Base addresses without a trailing slash, at least one. */
export function serverUrls(given: string | readonly string[] | undefined): string[] {
  const field = given === undefined && process.env.DROVER_URL !== undefined ? 'DROVER_URL' : 'url';
  const source = given ?? process.env.DROVER_URL ?? DEFAULT_URL;
  if (typeof source !== 'string' && !Array.isArray(source))
    refuse(field, `${ADDRESS_EXPECTED}, or a list of them`, source);
  const parts = (typeof source === 'string' ? source.split(',') : [...source])
    .map((part) => String(part).trim())
    .filter((part) => part !== '');
  if (parts.length === 0) refuse(field, ADDRESS_EXPECTED, source);
  if (parts.length > MAX_SERVERS) {
    throw invalid(`${field}: expected at most ${MAX_SERVERS} addresses, got ${parts.length}`);
  }
  const urls = [...new Set(parts.map((part) => normalUrl(part, field)))];
  const plain = urls.filter((url) => url.startsWith('http:'));
  if (plain.length > 0 && plain.length < urls.length) {
    // An attacker who can make the servers with TLS unreachable could otherwise read the token.
    throw invalid(`${field}: expected either https:// or http:// for all servers, got both (${plain[0]} has no TLS)`);
  }
  return urls;
}

const ADDRESS_EXPECTED = `an address such as "${DEFAULT_URL}"`;

export function normalUrl(text: string, field = 'url'): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    return refuse(field, ADDRESS_EXPECTED, text);
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

/** What a header can carry and a server accepts. Spaces around it, such as the newline of a file, are not part of it. */
const TOKEN_PATTERN = /^[!-+\--~]+$/;

export function givenToken(given: string | undefined): string | undefined {
  const field = given === undefined ? 'DROVER_TOKEN' : 'token';
  const token: unknown = given ?? process.env.DROVER_TOKEN ?? '';
  if (typeof token !== 'string') throw invalid(`${field}: expected a string, got ${typeof token}`);
  const trimmed = token.trim();
  if (trimmed === '') return undefined;
  if (TOKEN_PATTERN.test(trimmed)) return trimmed;
  const place = Array.from(trimmed).findIndex((character) => !TOKEN_PATTERN.test(character)) + 1;
  // Without the token itself, which is secret.
  throw invalid(`${field}: expected letters, digits and signs, without spaces and commas; see character ${place}`);
}

function refuse(field: string, expected: string, value: unknown): never {
  throw invalid(`${field}: expected ${expected}, got ${JSON.stringify(value) ?? String(value)}`);
}

function invalid(message: string): DroverError {
  return new DroverError('invalid_request', message);
}
