/**
 * Authentication and roles. A caller is known by a bearer token, of the database or of the configuration, or by a name in a
 * verified client certificate, which counts for requests without a token. On a server that is open every caller has all
 * rights; the command line starts such a server only if it is asked to, and what browsers send is checked (see
 * browser-guard).
 *
 * Only hashes are kept. Each check compares all configured ones in constant time, so the response time reveals neither the
 * length of a token nor how much of a guess is right.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { DroverError, type Route } from '@drover/protocol';
import type { AddressOf } from '../access/client-address.js';
import type { KnownTokens } from '../access/known-tokens.js';
import { type Action, type Caller, type Principal, UNLIMITED } from '../access/principal.js';
import { readToken } from '../access/token-secret.js';
import type { WrongTokens } from '../access/wrong-tokens.js';
import { type ConfiguredClient, isOpen, type ServerConfig } from '../config/server-config.js';
import { certificateNames, normalName } from '../tls/certificate-names.js';
import { toDroverError } from './answer-error.js';
import { createBrowserGuard } from './browser-guard.js';

/** What a route demands of its callers. */
export type Access = Pick<Route, 'roles' | 'scope'> & { readonly action: Action };

/** What is not there: everyone whom this server knows may learn that. */
export const UNKNOWN_PATH: Access = { roles: 'anyone', action: 'home' };

export type Authenticator = {
  /** Who calls; see requireAccess for whether it may. Throws unauthenticated, too_many_attempts. */
  identify(request: Credentials, access: Access): Caller | Promise<Caller>;
};

export type Authorize = (request: IncomingMessage) => Promise<Caller>;

/** The part of a request that tells who sends it. */
type Credentials = { headers: IncomingHttpHeaders; socket: Socket };

type AuthenticatorDeps = {
  config: Pick<ServerConfig, 'tokens' | 'tls' | 'insecure'>;
  known: Pick<KnownTokens, 'find'>;
  wrong: WrongTokens;
  addressOf: AddressOf;
};

const OWNER: Principal = { name: 'owner', role: 'admin', kind: 'open', ...UNLIMITED };

const REQUEST_ID_PATTERN = /^[\x21-\x7e]{1,128}$/;

/** One scheme, one space, one token without spaces. Longer tokens are never ours. */
const BEARER_PATTERN = /^Bearer +([^\s,]{1,4096}) *$/i;

export function createAuthenticator({ config, known, wrong, addressOf }: AuthenticatorDeps): Authenticator {
  const ofCertificate = certificateReader(config.tls?.clients ?? []);
  const ofConfiguration = configuredReader(config.tokens);
  const stranger = isOpen(config) ? OWNER : undefined;

  /** Undefined: no credential, or an unknown one. */
  function find(request: Credentials, { roles }: Access): Principal | undefined | Promise<Principal | undefined> {
    const { authorization } = request.headers;
    if (authorization === undefined) return ofCertificate(request.socket) ?? stranger;
    const text = BEARER_PATTERN.exec(authorization)?.[1];
    const token = text === undefined ? undefined : readToken(text);
    if (!token) return ofConfiguration(text) ?? stranger ?? refuse(request);
    const needsDatabase = roles !== 'anyone' && roles.every((role) => role === 'admin');
    const principal = known.find(token, { needsDatabase, mayRead: () => wrong.check(addressOf(request)) });
    return principal instanceof Promise ? principal.then((found) => found ?? stranger ?? refuse(request)) : principal;
  }

  function refuse(request: Credentials): undefined {
    const address = addressOf(request);
    wrong.check(address);
    wrong.note(address);
    return undefined;
  }

  function callerOf(request: Credentials, principal: Principal | undefined, { action }: Access): Caller {
    requireKnown(principal);
    return { principal, address: addressOf(request), requestId: requestIdOf(request.headers), action };
  }

  return {
    identify(request, access) {
      const principal = find(request, access);
      if (!(principal instanceof Promise)) return callerOf(request, principal, access);
      return principal.then((found) => callerOf(request, found, access));
    },
  };
}

function configuredReader(tokens: ServerConfig['tokens']): (text: string | undefined) => Principal | undefined {
  const known = tokens.map(({ name, role, token }) => {
    const principal: Principal = { name, role, kind: 'configured', ...UNLIMITED };
    return { principal, hash: hashOf(token) };
  });
  return (text) => {
    if (text === undefined || known.length === 0) return undefined;
    const hash = hashOf(text);
    let found: Principal | undefined;
    for (const { principal, hash: expected } of known) {
      if (timingSafeEqual(hash, expected)) found = principal;
    }
    return found;
  };
}

/** The first of the clients whose name is in the certificate of a connection. Read once per connection. */
function certificateReader(clients: readonly ConfiguredClient[]): (socket: Socket) => Principal | undefined {
  if (clients.length === 0) return () => undefined;
  const known = clients.map(({ name, role, san }) => {
    const principal: Principal = { name, role, kind: 'certificate', ...UNLIMITED };
    return { principal, san: normalName(san) };
  });
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

/** Throws unless the principal has one of these roles, and no scope where scopes are not checked. */
export function requireAccess(
  { name, role, scope: limit }: Principal,
  { roles, scope }: Pick<Access, 'roles' | 'scope'>,
): void {
  if (roles === 'anyone' || role === 'admin') return;
  if (!roles.includes(role)) {
    throw new DroverError('forbidden', `"${name}" has the role ${role}, this needs ${roles.join(' or ')}`);
  }
  if (limit === undefined || scope !== undefined) return;
  throw new DroverError(
    'forbidden',
    `"${name}" is limited to some queues or types, this needs a token for all of them`,
  );
}

function requireKnown(principal: Principal | undefined): asserts principal is Principal {
  if (principal) return;
  throw new DroverError(
    'unauthenticated',
    'expected the header authorization: Bearer TOKEN with a token that this server knows',
  );
}

/** Authorizes the opening of a stream. Throws unless the caller has one of these roles. */
export function createAuthorizer(
  config: Pick<ServerConfig, 'host' | 'tokens' | 'insecure' | 'tls'>,
  authenticator: Authenticator,
  access: Access,
): Authorize {
  const browserGuard = createBrowserGuard(config);
  return async (request) => {
    browserGuard.check(request);
    try {
      const caller = await authenticator.identify(request, access);
      requireAccess(caller.principal, access);
      return caller;
    } catch (error) {
      // the database may not answer
      throw toDroverError(error);
    }
  };
}

/** Null if there is none, or one that is too long or no plain text. */
function requestIdOf(headers: IncomingHttpHeaders): string | null {
  const id = headers['x-request-id'];
  return typeof id === 'string' && REQUEST_ID_PATTERN.test(id) ? id : null;
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
