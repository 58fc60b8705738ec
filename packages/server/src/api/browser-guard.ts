/**
 * Protects a server without tokens from web pages in its owner's browser. A page can send requests to loopback, which
 * need no credential here:
 * - With a host name of its own that resolves to 127.0.0.1 (DNS rebinding) it could even read the answers. The Host
 *   header still has that name, so only loopback names are accepted.
 * - A form or script of another origin can send requests without reading the answers. Its Origin header reveals it.
 *   With tokens neither works, because a browser does not add a bearer token by itself. It does add a client
 *   certificate, so where those are credentials, the origin is compared too.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { DroverError } from '@drover/protocol';
import { isLoopback } from '../base/is-loopback.js';
import { isOpen, type ServerConfig } from '../config/server-config.js';

export type BrowserGuard = {
  /** Throws `forbidden` for a request that another site's page may have sent. */
  check(request: { method?: string | undefined; headers: IncomingHttpHeaders }): void;
};

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

export function createBrowserGuard(config: Pick<ServerConfig, 'host' | 'tokens' | 'insecure' | 'tls'>): BrowserGuard {
  const hasClients = config.tls !== undefined && config.tls.clients.length > 0;
  if (!isOpen(config) && !hasClients) return { check() {} };
  // the operator who opens a server to other machines cannot say under which names they reach it
  const acceptsAnyHost = hasClients || (config.insecure && !isLoopback(config.host));

  return {
    check({ method, headers }) {
      const host = headers.host ?? '';
      if (!acceptsAnyHost && !isLoopback(hostName(host))) {
        throw new DroverError(
          'forbidden',
          `a server without tokens answers only to names of this machine such as localhost, got the host ${JSON.stringify(host)}: ` +
            'configure tokens',
        );
      }
      // A WebSocket upgrade is a GET, and browsers let any page open one.
      const changes = !SAFE_METHODS.has(method ?? 'GET') || headers.upgrade !== undefined;
      if (changes && headers.origin !== undefined && !isSameOrigin(headers.origin, host)) {
        throw new DroverError(
          'forbidden',
          `a page of ${JSON.stringify(headers.origin)} may change nothing here: a server without tokens takes changes only from itself`,
        );
      }
    },
  };
}

/** `Host` without its port. The brackets of an IPv6 address stay. */
function hostName(host: string): string {
  return host.replace(/:\d*$/, '');
}

function isSameOrigin(origin: string, host: string): boolean {
  return host !== '' && (origin === `http://${host}` || origin === `https://${host}`);
}
