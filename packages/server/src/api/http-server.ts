/**
 * The HTTP server: mounts the routes of the table, each with its handler. Every request gets an answer in the same
 * format.
 *
 * ```
 * connection ─► limits and time-outs ─► is it stopping? ─► browser guard ─► who is it? ─► may they?
 *                                    ─► body ─► schemas ─► handler ─► JSON
 * ```
 * Every exception ends in answer-error. The caller is authenticated before the body is read, so an unauthenticated
 * caller cannot make the server hold 64 MiB.
 */
import type { Server } from 'node:http';
import { DroverError, LIMITS, ROUTES, type Route, type RouteName } from '@drover/protocol';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { ServerConfig } from '../config/server-config.js';
import { errorHeaders, logError, toDroverError } from './answer-error.js';
import { createAuthenticator, requireKnown, requireRole } from './auth.js';
import { answerBrokenRequest, answerExpectation } from './broken-request.js';
import { createBrowserGuard } from './browser-guard.js';
import { JSON_TYPE, NO_BODY, parseWith, type RequestText, readBody, readText } from './read-body.js';
import type { Call, RouteHandlers } from './route-handler.js';
import { methodsAt } from './route-paths.js';

export type HttpServerDeps = {
  handlers: RouteHandlers;
  config: Pick<ServerConfig, 'host' | 'port' | 'tokens' | 'insecure'>;
  logger: Logger;
  serverId: string;
};

export type HttpServer = {
  /** For the handlers of upgrades. */
  readonly server: Server;
  /** The address is a URL. */
  listen(): Promise<{ address: string; port: number }>;
  /** Refuses new requests, lets those in progress finish, and closes every connection after a grace period. */
  close(): Promise<void>;
};

/** Limits for the headers and for the whole request, against clients that send slowly to hold connections. */
const HEADERS_TIMEOUT_MS = 20_000;
const REQUEST_TIMEOUT_MS = 120_000;
const TIMEOUT_CHECK_MS = 5000;
/** Longer than the usual minute of load balancers, so that they close the connection and no request is lost. */
const KEEP_ALIVE_MS = 75_000;
/** Limit without any byte in either direction; longer than the longest wait for a result. */
const SILENCE_TIMEOUT_MS = LIMITS.resultWaitMs + 30_000;
const CLOSE_GRACE_MS = 5000;

const JSON_ANSWER = `${JSON_TYPE}; charset=utf-8`;
const PLAIN_TEXT = 'text/plain; charset=utf-8';
const NOTHING = z.strictObject({});
/** The media types of request bodies. */
const BODY_TYPES = [JSON_TYPE, ...new Set(Object.values(ROUTES).flatMap((route: Route) => route.bodyType ?? []))];

export function createHttpServer(deps: HttpServerDeps): HttpServer {
  const { handlers, config, logger, serverId } = deps;
  const authenticator = createAuthenticator(config.tokens);
  const browserGuard = createBrowserGuard(config);
  /** Waiting requests that must end when the server stops. */
  const waiting = new Set<AbortController>();
  let closing: Promise<void> | undefined;

  const app = fastify({
    logger: false,
    bodyLimit: LIMITS.requestBytes,
    connectionTimeout: SILENCE_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      // A request without the header gets our error format, see onRequest.
      requireHostHeader: false,
    },
    forceCloseConnections: 'idle',
    // Fastify's own answer has another format, see onRequest.
    return503OnClosing: false,
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: answerError,
  });
  app.server.on('checkExpectation', answerExpectation);
  app.removeAllContentTypeParsers();
  for (const mediaType of BODY_TYPES) {
    app.addContentTypeParser(mediaType, { parseAs: 'buffer' }, async (_request: FastifyRequest, body: Buffer) => ({
      text: readText(body),
      mediaType,
    }));
  }

  app.addHook('onRequest', async (request, reply) => {
    reply.header('drover-server', serverId);
    reply.header('cache-control', 'no-store');
    reply.header('x-content-type-options', 'nosniff');
    if (closing) throw new DroverError('shutting_down', 'this server is stopping; send the request to another one');
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new DroverError('invalid_request', 'expected the header host');
    }
    browserGuard.check(request);
  });
  app.setErrorHandler(answerError);
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] as string;
    const methods = methodsAt(path);
    // Unauthenticated callers must not learn which paths exist.
    if (!methods?.forAnyone) requireKnown(authenticator.authenticate(request.headers.authorization));
    if (!methods) throw new DroverError('not_found', `there is nothing at ${path}`);
    reply.header('allow', methods.allowed.join(', '));
    throw new DroverError(
      'method_not_allowed',
      `${request.method} is not possible at ${path}, expected ${methods.allowed.join(' or ')}`,
    );
  });
  for (const name of Object.keys(ROUTES) as RouteName[]) mount(name);

  function mount(name: RouteName): void {
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
        requireRole(authenticator.authenticate(request.headers.authorization), route.roles);
      },
      handler: async (request, reply) => {
        reply.code(route.status ?? 200);
        const call = {
          params: route.params && parseWith(route.params, request.params),
          query: querySchema && parseWith(querySchema, request.query),
          body: readBody(route, (request.body as RequestText | undefined) ?? NO_BODY),
          get by() {
            return nameOf(request);
          },
          gone: () => goneSignal(reply),
          setStatus: (status: number) => reply.code(status),
        };
        const answer = await handle(call as unknown as Call<never>);
        if (closing) reply.header('connection', 'close');
        return typeof answer === 'string'
          ? reply.type(route.mediaType ?? PLAIN_TEXT).send(answer)
          : reply.type(JSON_ANSWER).send(JSON.stringify(answer));
      },
    });
  }

  function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const known = toDroverError(error);
    logError(logger, known, request);
    if (reply.sent) return;
    if (closing) reply.header('connection', 'close');
    reply.code(known.status).headers(errorHeaders(known)).type(JSON_ANSWER).send(JSON.stringify(known.toBody()));
  }

  function nameOf(request: FastifyRequest): string {
    return authenticator.authenticate(request.headers.authorization)?.name ?? 'anyone';
  }

  function goneSignal(reply: FastifyReply): AbortSignal {
    const controller = new AbortController();
    if (closing) controller.abort();
    waiting.add(controller);
    reply.raw.once('close', () => {
      waiting.delete(controller);
      controller.abort();
    });
    return controller.signal;
  }

  async function close(): Promise<void> {
    for (const controller of waiting) controller.abort();
    const grace = setTimeout(() => app.server.closeAllConnections(), CLOSE_GRACE_MS);
    await app.close();
    clearTimeout(grace);
  }

  return {
    server: app.server,
    async listen() {
      await app.listen({ host: config.host, port: config.port });
      return addressOf(app);
    },
    close() {
      closing ??= Promise.resolve().then(close);
      return closing;
    },
  };
}

function addressOf(app: FastifyInstance): { address: string; port: number } {
  const bound = app.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the server does not listen on a port');
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return { address: `http://${host}:${bound.port}`, port: bound.port };
}
