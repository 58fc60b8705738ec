/** Mounts the routes of the table, each with its handler, and the answer for requests that none of them takes. */
import type { IncomingMessage } from 'node:http';
import { DroverError, ROUTES, type Route, type RouteName } from '@drover/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Caller } from '../access/principal.js';
import type { CheckRate } from '../access/request-rate.js';
import { jsonOf } from '../base/json-text.js';
import type { MemoryBudget } from '../base/memory-budget.js';
import { type Authenticator, requireAccess, UNKNOWN_PATH } from './auth.js';
import type { ConnectionLimits } from './connection-limits.js';
import { CONTENT_SECURITY_POLICY } from './home-page.js';
import { JSON_TYPE, parseWith, readBody, type SentBody } from './read-body.js';
import type { Call, RouteHandlers } from './route-handler.js';
import { methodsAt } from './route-paths.js';

export type MountDeps = {
  handlers: RouteHandlers;
  authenticator: Authenticator;
  checkRate: CheckRate;
  /** Counts the requests in progress. */
  memory: MemoryBudget;
  connections: ConnectionLimits;
  /** Aborts when the client has disconnected or the server stops. */
  goneSignal(reply: FastifyReply): AbortSignal;
  /** Whether connections close after their answer. */
  isClosing(): boolean;
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for every route that is not for anyone. */
    caller: Caller | undefined;
  }
}

export const JSON_ANSWER = `${JSON_TYPE}; charset=utf-8`;
const PLAIN_TEXT = 'text/plain; charset=utf-8';
/** What a browser shows as a page. */
const TEXT_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
};
const NOTHING = z.strictObject({});
/** The media types of request bodies. */
const BODY_TYPES = [JSON_TYPE, ...new Set(Object.values(ROUTES).flatMap((route: Route) => route.bodyType ?? []))];

export function mountRoutes(app: FastifyInstance, deps: MountDeps): void {
  app.removeAllContentTypeParsers();
  app.decorateRequest('caller', undefined);
  for (const mediaType of BODY_TYPES) {
    app.addContentTypeParser(mediaType, async (_: FastifyRequest, stream: IncomingMessage) => ({ stream, mediaType }));
  }
  for (const name of Object.keys(ROUTES) as RouteName[]) mountRoute(app, name, deps);
  app.setNotFoundHandler((request, reply) => refuseUnknown(deps.authenticator, request, reply));
}

function mountRoute(app: FastifyInstance, name: RouteName, deps: MountDeps): void {
  const { handlers, authenticator } = deps;
  const route: Route = ROUTES[name];
  const access = { ...route, action: name };
  // The types of all routes meet here; RouteHandlers checks that they match.
  const handle = handlers[name] as (call: Call<never>) => unknown;
  // Health checkers often add a parameter against caches. On other routes an unknown filter is a mistake.
  const querySchema = route.query ?? (route.roles === 'anyone' ? undefined : NOTHING);
  app.route({
    method: route.method,
    url: route.path,
    onRequest: async (request) => {
      if (route.roles === 'anyone') return;
      const found = authenticator.identify(request, access);
      // known also to the handler of errors, if it may not call this route
      request.caller = found instanceof Promise ? await found : found;
      deps.connections.know(request.raw.socket);
      requireAccess(request.caller.principal, route);
      deps.checkRate(request.caller.principal);
    },
    handler: async (request, reply) => {
      reply.code(route.status ?? 200);
      const call = {
        params: route.params && parseWith(route.params, request.params),
        query: querySchema && parseWith(querySchema, request.query),
        body: await bodyOf(route, request, reply, deps.memory),
        by: request.caller,
        gone: () => deps.goneSignal(reply),
        setStatus: (status: number) => reply.code(status),
      };
      const answer = await handle(call as unknown as Call<never>);
      if (deps.isClosing()) reply.header('connection', 'close');
      return typeof answer === 'string'
        ? reply
            .type(route.mediaType ?? PLAIN_TEXT)
            .headers(TEXT_HEADERS)
            .send(answer)
        : reply.type(JSON_ANSWER).send(jsonOf(answer));
    },
  });
}

async function bodyOf(route: Route, request: FastifyRequest, reply: FastifyReply, memory: MemoryBudget) {
  const sent = request.body as SentBody | undefined;
  const share = memory.share(request.caller?.principal);
  if (sent) reply.raw.once('close', share.release);
  try {
    return await readBody(route, sent, share);
  } finally {
    // the rest of a body that was refused is not read
    if (sent && !sent.stream.readableEnded) reply.header('connection', 'close');
  }
}

async function refuseUnknown(
  authenticator: Authenticator,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const path = request.url.split('?', 1)[0] as string;
  const methods = methodsAt(path);
  // Unauthenticated callers must not learn which paths exist.
  if (!methods?.forAnyone) await authenticator.identify(request, UNKNOWN_PATH);
  if (!methods) throw new DroverError('not_found', `there is nothing at ${path}`);
  reply.header('allow', methods.allowed.join(', '));
  throw new DroverError(
    'method_not_allowed',
    `${request.method} is not possible at ${path}, expected ${methods.allowed.join(', ').replace(/, (\w+)$/, ' or $1')}`,
  );
}
