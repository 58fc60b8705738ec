/** Mounts the routes of the table, each with its handler, and the answer for requests that none of them takes. */
import { DroverError, ROUTES, type Route, type RouteName } from '@drover/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Authenticator, requireKnown, requireRole } from './auth.js';
import { JSON_TYPE, NO_BODY, parseWith, type RequestText, readBody, readText } from './read-body.js';
import type { Call, RouteHandlers } from './route-handler.js';
import { methodsAt } from './route-paths.js';

export type MountDeps = {
  handlers: RouteHandlers;
  authenticator: Authenticator;
  /** Aborts when the client has disconnected or the server stops. */
  goneSignal(reply: FastifyReply): AbortSignal;
  /** Whether connections close after their answer. */
  isClosing(): boolean;
};

export const JSON_ANSWER = `${JSON_TYPE}; charset=utf-8`;
const PLAIN_TEXT = 'text/plain; charset=utf-8';
const NOTHING = z.strictObject({});
/** The media types of request bodies. */
const BODY_TYPES = [JSON_TYPE, ...new Set(Object.values(ROUTES).flatMap((route: Route) => route.bodyType ?? []))];

export function mountRoutes(app: FastifyInstance, deps: MountDeps): void {
  app.removeAllContentTypeParsers();
  for (const mediaType of BODY_TYPES) {
    app.addContentTypeParser(mediaType, { parseAs: 'buffer' }, async (_request: FastifyRequest, body: Buffer) => ({
      text: readText(body),
      mediaType,
    }));
  }
  for (const name of Object.keys(ROUTES) as RouteName[]) mountRoute(app, name, deps);
  app.setNotFoundHandler((request, reply) => refuseUnknown(deps.authenticator, request, reply));
}

function mountRoute(app: FastifyInstance, name: RouteName, deps: MountDeps): void {
  const { handlers, authenticator } = deps;
  const route: Route = ROUTES[name];
  // The types of all routes meet here; RouteHandlers checks that they match.
  const handle = handlers[name] as (call: Call<never>) => unknown;
  // Health checkers often add a parameter against caches. On other routes an unknown filter is a mistake.
  const querySchema = route.query ?? (route.roles === 'anyone' ? undefined : NOTHING);
  app.route({
    method: route.method,
    url: route.path,
    onRequest: async (request) => {
      if (route.roles === 'anyone') return;
      requireRole(authenticator.authenticate(request), route.roles);
    },
    handler: async (request, reply) => {
      reply.code(route.status ?? 200);
      const call = {
        params: route.params && parseWith(route.params, request.params),
        query: querySchema && parseWith(querySchema, request.query),
        body: readBody(route, (request.body as RequestText | undefined) ?? NO_BODY),
        get by() {
          return authenticator.authenticate(request)?.name ?? 'anyone';
        },
        gone: () => deps.goneSignal(reply),
        setStatus: (status: number) => reply.code(status),
      };
      const answer = await handle(call as unknown as Call<never>);
      if (deps.isClosing()) reply.header('connection', 'close');
      return typeof answer === 'string'
        ? reply.type(route.mediaType ?? PLAIN_TEXT).send(answer)
        : reply.type(JSON_ANSWER).send(JSON.stringify(answer));
    },
  });
}

function refuseUnknown(authenticator: Authenticator, request: FastifyRequest, reply: FastifyReply): void {
  const path = request.url.split('?', 1)[0] as string;
  const methods = methodsAt(path);
  // Unauthenticated callers must not learn which paths exist.
  if (!methods?.forAnyone) requireKnown(authenticator.authenticate(request));
  if (!methods) throw new DroverError('not_found', `there is nothing at ${path}`);
  reply.header('allow', methods.allowed.join(', '));
  throw new DroverError(
    'method_not_allowed',
    `${request.method} is not possible at ${path}, expected ${methods.allowed.join(' or ')}`,
  );
}
