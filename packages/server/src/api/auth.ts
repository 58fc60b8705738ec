/**
 * Authentication. A bearer token of the configuration has a name and a role. Without any tokens, every caller has all
 * rights; the command line starts such a server only if it is asked to, and what browsers send is checked (see
 * browser-guard).
 *
 * Only hashes are kept. Each check compares all of them in constant time, so the response time reveals neither the
 * length of a token nor how much of a guess is right.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { DroverError, type Role, type Route } from '@drover/protocol';
import type { ConfiguredToken, ServerConfig } from '../config/server-config.js';
import { createBrowserGuard } from './browser-guard.js';

/** `name` is shown in logs and the audit trail. */
export type Principal = { readonly name: string; readonly role: Role };

export type Authenticator = {
  /** Takes the Authorization header. Undefined: no token, or an unknown one. */
  authenticate(authorization: string | undefined): Principal | undefined;
};

const OWNER: Principal = { name: 'owner', role: 'admin' };

/** One scheme, one space, one token without spaces. Longer tokens are never ours. */
const BEARER_PATTERN = /^Bearer +([^\s,]{1,4096}) *$/i;

export function createAuthenticator(tokens: readonly ConfiguredToken[]): Authenticator {
  if (tokens.length === 0) return { authenticate: () => OWNER };
  const known = tokens.map(({ name, role, token }) => ({ principal: { name, role }, hash: hashOf(token) }));

  return {
    authenticate(authorization) {
      const token = authorization === undefined ? undefined : BEARER_PATTERN.exec(authorization)?.[1];
      if (token === undefined) return undefined;
      const hash = hashOf(token);
      let found: Principal | undefined;
      for (const { principal, hash: expected } of known) {
        if (timingSafeEqual(hash, expected)) found = principal;
      }
      return found;
    },
  };
}

/** Throws unless the principal has one of these roles. `admin` may do everything. */
export function requireRole(principal: Principal | undefined, roles: Route['roles']): void {
  if (roles === 'anyone') return;
  requireKnown(principal);
  if (principal.role === 'admin' || roles.includes(principal.role)) return;
  throw new DroverError(
    'forbidden',
    `the token "${principal.name}" has the role ${principal.role}, this needs ${roles.join(' or ')}`,
  );
}

export function requireKnown(principal: Principal | undefined): asserts principal is Principal {
  if (principal) return;
  throw new DroverError(
    'unauthenticated',
    'expected the header authorization: Bearer TOKEN with a token that this server knows',
  );
}

/** Authorizes the opening of a stream. Throws unless the caller has one of these roles. */
export function createAuthorizer(
  config: Pick<ServerConfig, 'host' | 'tokens' | 'insecure'>,
  roles: Route['roles'],
): (request: IncomingMessage) => Principal {
  const browserGuard = createBrowserGuard(config);
  const authenticator = createAuthenticator(config.tokens);
  return (request) => {
    browserGuard.check(request);
    const principal = authenticator.authenticate(request.headers.authorization);
    requireKnown(principal);
    requireRole(principal, roles);
    return principal;
  };
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
