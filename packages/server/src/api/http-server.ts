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
import { type ServerOptions as HttpsOptions, Server as HttpsServer } from 'node:https';
import { DroverError, LIMITS } from '@drover/protocol';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Logger } from 'pino';
import type { Denials } from '../access/denials.js';
import type { CheckRate } from '../access/request-rate.js';
import { isLoopback } from '../base/is-loopback.js';
import type { MemoryBudget } from '../base/memory-budget.js';
import type { ServerConfig } from '../config/server-config.js';
import { requireCertificate } from '../tls/require-certificate.js';
import { errorHeaders, logError, toDroverError } from './answer-error.js';
import type { Authenticator } from './auth.js';
import { answerBrokenRequest, answerExpectation } from './broken-request.js';
import { createBrowserGuard } from './browser-guard.js';
import { type ConnectionLimits, limitConnections } from './connection-limits.js';
import { createGoneSignals } from './gone-signals.js';
import { JSON_ANSWER, mountRoutes } from './mount-routes.js';
import type { RouteHandlers } from './route-handler.js';

export type HttpServerDeps = {
  handlers: RouteHandlers;
  authenticator: Authenticator;
  denials: Denials;
  checkRate: CheckRate;
  config: Pick<ServerConfig, 'host' | 'port' | 'tokens' | 'insecure' | 'tls'>;
  logger: Logger;
  serverId: string;
  /** Counts the requests in progress. */
  memory: MemoryBudget;
};

export type HttpServer = {
  /** For the handlers of upgrades. */
  readonly server: Server;
  readonly connections: ConnectionLimits;
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
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Browsers use only TLS for this host name from now on. They must not for localhost, which all programs share. */
const STRICT_TRANSPORT = 'max-age=31536000';

export function createHttpServer(deps: HttpServerDeps): HttpServer {
  const { handlers, authenticator, config, logger, serverId, memory } = deps;
  const browserGuard = createBrowserGuard(config);
  const goneSignals = createGoneSignals();
  let closing: Promise<void> | undefined;

  const app = createApp(config.tls, answerError);
  app.addHook('onRequest', async (request, reply) => {
    reply.header('drover-server', serverId);
    reply.header('cache-control', 'no-store');
    reply.header('x-content-type-options', 'nosniff');
    if (config.tls !== undefined && !isLoopback(request.hostname)) {
      reply.header('strict-transport-security', STRICT_TRANSPORT);
    }
    if (closing) throw new DroverError('shutting_down', 'this server is stopping; send the request to another one');
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new DroverError('invalid_request', 'expected the header host');
    }
    browserGuard.check(request);
  });
  if (config.tls?.clientCaFile !== undefined) requireCertificate(app.server as unknown as HttpsServer, logger);
  const connections = limitConnections(app.server, logger);
  mountRoutes(app, {
    handlers,
    memory,
    connections,
    authenticator,
    checkRate: deps.checkRate,
    goneSignal: (reply) => goneSignals.of(reply.raw),
    isClosing: () => closing !== undefined,
  });

  function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const known = toDroverError(error);
    logError(logger, known, request);
    if (known.code === 'forbidden' && request.caller) deps.denials.note(request.caller, known);
    if (reply.sent) return;
    if (closing) reply.header('connection', 'close');
    reply.code(known.status).headers(errorHeaders(known)).type(JSON_ANSWER).send(JSON.stringify(known.toBody()));
  }

  async function close(): Promise<void> {
    goneSignals.stop();
    const grace = setTimeout(() => app.server.closeAllConnections(), CLOSE_GRACE_MS);
    await app.close();
    clearTimeout(grace);
  }

  return {
    server: app.server,
    connections,
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

/** Fastify with our limits, and with every error answered in our format. */
function createApp(
  tls: ServerConfig['tls'],
  answerError: (error: unknown, request: FastifyRequest, reply: FastifyReply) => void,
): FastifyInstance {
  const parser = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    // A request without the header gets our error format, see onRequest.
    requireHostHeader: false,
  };
  // Fastify's types want another type of server for this option, which the rest of the code does not tell apart.
  const secure = (tls === undefined ? {} : { https: { ...parser, ...tlsOptions(tls) } }) as object;
  const app = fastify({
    logger: false,
    connectionTimeout: SILENCE_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: parser,
    ...secure,
    forceCloseConnections: 'idle',
    // Fastify's own answer has another format, see onRequest.
    return503OnClosing: false,
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: answerError,
  });
  app.server.on('checkExpectation', answerExpectation);
  app.setErrorHandler(answerError);
  return app;
}

/** The certificate itself comes later, and may change: see certificate-keeper. */
function tlsOptions({ clientCaFile, minVersion }: NonNullable<ServerConfig['tls']>): HttpsOptions {
  // Clients without a certificate are refused by requireCertificate.
  const clientCertificates = { requestCert: clientCaFile !== undefined, rejectUnauthorized: false };
  return { minVersion, ...clientCertificates, handshakeTimeout: HANDSHAKE_TIMEOUT_MS };
}

function addressOf(app: FastifyInstance): { address: string; port: number } {
  const bound = app.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the server does not listen on a port');
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  const scheme = app.server instanceof HttpsServer ? 'https' : 'http';
  return { address: `${scheme}://${host}:${bound.port}`, port: bound.port };
}
