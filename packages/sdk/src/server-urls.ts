/** The base addresses of the servers: from the option, from `DROVER_URL`, or the default. */
import { DroverError } from '@drover/protocol/errors';

export const DEFAULT_URL = 'http://127.0.0.1:8420';

/** Servers that one client or worker remembers. */
export const MAX_SERVERS = 100;

/** Base addresses without a trailing slash, at least one. */
export function serverUrls(given: string | readonly string[] | undefined): string[] {
  const source = given ?? process.env.DROVER_URL ?? DEFAULT_URL;
  const parts = (typeof source === 'string' ? source.split(',') : [...source])
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (parts.length === 0 || parts.length > MAX_SERVERS) {
    throw new DroverError('invalid_request', `url: expected 1 to ${MAX_SERVERS} addresses, got ${parts.length}`);
  }
  return [...new Set(parts.map(normalUrl))];
}

export function normalUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new DroverError(
      'invalid_request',
      `url: expected an address such as "${DEFAULT_URL}", got ${JSON.stringify(text)}`,
    );
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

export function givenToken(token: string | undefined): string | undefined {
  return token ?? process.env.DROVER_TOKEN ?? undefined;
}
