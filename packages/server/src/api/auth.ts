/**
 * Authentication. A bearer token of the configuration has a name and a role; so has a name in a verified client
 * certificate, which counts for requests without a token. Without any of them, every caller has all rights; the command
 * line starts such a server only if it is asked to, and what browsers send is checked (see browser-guard).
 *
 * Only hashes are kept. Each check compares all of them in constant time, so the response time reveals neither the
 * length of a token nor how much of a guess is right.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { DroverError, type Role, type Route } from '@drover/protocol';
import type { ConfiguredClient, ServerConfig } from '../config/server-config.js';
import { certificateNames, normalName } from '../tls/certificate-names.js';
import { createBrowserGuard } from './browser-guard.js';

/** `name` is shown in logs and the audit trail. */
export type Principal = { readonly name: string; readonly role: Role };

export type Authenticator = {
  /** Undefined: no credential, or an unknown one. */
  authenticate(request: Credentials): Principal | undefined;
};

/** The part of a request that tells who sends it. */
type Credentials = { headers: { authorization?: string | undefined }; socket: Socket };

const OWNER: Principal = { name: 'owner', role: 'admin' };

/** One scheme, one space, one token without spaces. Longer tokens are never ours. */
const BEARER_PATTERN = /^Bearer +([^\s,]{1,4096}) *$/i;

export function createAuthenticator({ tokens, tls }: Pick<ServerConfig, 'tokens' | 'tls'>): Authenticator {
  const clients = tls?.clients ?? [];
  if (tokens.length === 0 && clients.length === 0) return { authenticate: () => OWNER };
  const ofCertificate = certificateReader(clients);
  const known = tokens.map(({ name, role, token }) => ({ principal: { name, role }, hash: hashOf(token) }));

  return {
    authenticate({ headers: { authorization }, socket }) {
      if (authorization === undefined) return ofCertificate(socket);
      const token = BEARER_PATTERN.exec(authorization)?.[1];
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

/** The first of the clients whose name is in the certificate of a connection. Read once per connection. */
function certificateReader(clients: readonly ConfiguredClient[]): (socket: Socket) => Principal | undefined {
  const known = clients.map(({ name, role, san }) => ({ san: normalName(san), principal: { name, role } }));
  const found = new WeakMap<Socket, Principal | 'stranger'>();
  return (socket) => {
    let principal = found.get(socket);
    if (principal === undefined) {
      const names = certificateNames(socket);
      principal = known.find(({ san }) => names.includes(san))?.principal ?? 'stranger';
      found.set(socket, principal);
    }
    return principal === 'stranger' ? undefined : principal;
  };
}

/** Throws unless the principal has one of these roles. `admin` may do everything. */
export function requireRole(principal: Principal | undefined, roles: Route['roles']): void {
  if (roles === 'anyone') return;
  requireKnown(principal);
  if (principal.role === 'admin' || roles.includes(principal.role)) return;
  throw new DroverError(
    'forbidden',
    `"${principal.name}" has the role ${principal.role}, this needs ${roles.join(' or ')}`,
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
  config: Pick<ServerConfig, 'host' | 'tokens' | 'insecure' | 'tls'>,
  roles: Route['roles'],
): (request: IncomingMessage) => Principal {
  const browserGuard = createBrowserGuard(config);
  const authenticator = createAuthenticator(config);
  return (request) => {
    browserGuard.check(request);
    const principal = authenticator.authenticate(request);
    requireKnown(principal);
    requireRole(principal, roles);
    return principal;
  };
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
