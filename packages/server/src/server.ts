/**
 * A Drover server: the composition root. It creates the parts, connects them, and starts and stops them in order. All
 * state of a server can be rebuilt from the database and the workers, so all servers are equal.
 */
import type { Server as HttpsServer } from 'node:https';
import { hostname } from 'node:os';
import { CALLED_ROUTE, CALLS_PATH, DroverError, newId, ROUTES, STREAM_PATH } from '@drover/protocol';
import { within } from '@drover/protocol/within';
import type { Logger } from 'pino';
import { createAddressReader } from './access/client-address.js';
import { createDenials } from './access/denials.js';
import { createKnownTokens } from './access/known-tokens.js';
import { createRequestRate } from './access/request-rate.js';
import { createTokens } from './access/tokens.js';
import { createWrongTokens } from './access/wrong-tokens.js';
import { createAdmission } from './admission/admission.js';
import { errorHeaders } from './api/answer-error.js';
import { createAuthenticator, createAuthorizer, UNKNOWN_PATH } from './api/auth.js';
import { createCallStream } from './api/call-stream.js';
import { createHandlers } from './api/handlers.js';
import { createHttpServer } from './api/http-server.js';
import { createMemoryBudget } from './base/memory-budget.js';
import type { ServerConfig } from './config/server-config.js';
import { connectDatabase, type Database } from './db/database.js';
import { actOnChanges } from './dispatch/act-on-changes.js';
import { createDispatcher } from './dispatch/dispatcher.js';
import { createPauses } from './dispatch/pauses.js';
import { createWaiters } from './dispatch/waiters.js';
import { createWakeups } from './dispatch/wakeups.js';
import { createEngine } from './engine/engine.js';
import { createScheduleEngine } from './engine/schedules.js';
import { createWorkflowEngine } from './engine/workflows.js';
import { createCluster } from './housekeeping/cluster.js';
import { createClusterIdReader, publishPayloadLimit } from './housekeeping/cluster-values.js';
import { createDuties } from './housekeeping/duties.js';
import { leaveCluster, type ServerIdentity, sayPresence } from './housekeeping/presence.js';
import { createPromoter } from './housekeeping/promoter.js';
import { cancelJobs } from './lifecycle/cancel.js';
import { createPublisher } from './lifecycle/publish.js';
import { createReport } from './schedules/report.js';
import { createTicker } from './schedules/ticker.js';
import { createJobTypes } from './sessions/job-types.js';
import { createOutcomes } from './sessions/outcomes.js';
import { createProgressWriter } from './sessions/progress.js';
import { createRegistry } from './sessions/registry.js';
import { createWorkerSessions } from './sessions/worker-sessions.js';
import { routeUpgrades } from './sockets/upgrades.js';
import { createEvents } from './telemetry/log-events.js';
import { createMetrics, type Metrics } from './telemetry/metrics.js';
import { createOutageLog, type OutageLog } from './telemetry/outage-log.js';
import { createCertificateKeeper } from './tls/certificate-keeper.js';
import { VERSION } from './version.js';
import { createWorkerStream } from './workers/stream/stream.js';

export type DroverServer = {
  readonly id: string;
  /** Where it listens, once started. */
  readonly address: string;
  start(): Promise<void>;
  /** Reads the files of its certificate now; it also notices by itself that they have changed. Never rejects. */
  reloadCertificate(): Promise<void>;
  /** Finishes what is in progress and leaves the cluster. May be called twice. */
  stop(): Promise<void>;
};

/** Limit for workers to move to another server, and for the last batch to be written. */
const STOP_GRACE_MS = 5000;
/** A due time further away than this is found by the periodic lookup. */
const FAR_AWAY_MS = 1000;

/** Shared by all parts. */
type Base = {
  config: ServerConfig;
  logger: Logger;
  identity: ServerIdentity;
  metrics: Metrics;
  db: Database;
  /** Aborted when the server starts to stop. */
  stopping: AbortController;
};

type Parts = ReturnType<typeof buildParts>;

export function createServer(config: ServerConfig, { logger: given }: { logger: Logger }): DroverServer {
  const outages = createOutageLog(given);
  const { logger } = outages;
  const id = newId();
  const identity = { id, address: '', host: hostname(), pid: process.pid, version: VERSION, draining: false };
  const metrics = createMetrics();
  const db = connect(config, { logger, outages, metrics });
  const parts = buildParts({ config, logger, identity, metrics, db, stopping: new AbortController() });
  let stopped: Promise<void> | undefined;

  return {
    id,
    get address() {
      return identity.address;
    },
    async start() {
      if (stopped) throw new DroverError('shutting_down', 'a stopped server cannot be started again');
      await start(parts);
    },
    async reloadCertificate() {
      await parts.certificate?.reload();
    },
    stop() {
      stopped ??= stop(parts);
      return stopped;
    },
  };
}

function connect(
  config: ServerConfig,
  { logger, outages, metrics }: Pick<Base, 'logger' | 'metrics'> & { outages: OutageLog },
) {
  return connectDatabase({
    url: config.databaseUrl,
    poolSize: config.poolSize,
    onError(error) {
      outages.failed(error);
      logger.debug({ event: 'database.failed', reason: error.message }, 'a database connection failed');
    },
    onFailure(error) {
      outages.failed(error);
      metrics.databaseErrors.inc({ kind: error.kind });
    },
    onAnswer: outages.answered,
    onMove: (url) => logger.warn({ event: 'database.moved', host: new URL(url).host }, 'using another database host'),
  });
}

function buildParts(base: Base) {
  const core = buildCore(base);
  const access = buildAccess(base, core);
  const io = buildTraffic(base, { ...core, ...access });
  const schedules = buildSchedules(base, core);
  const parts = { ...core, ...access, ...io, ...schedules };
  return { ...base, ...parts, ...buildApi(base, parts) };
}

/** Changes, the workers of this server, and the dispatcher. */
function buildCore({ config, logger, identity, metrics, db }: Base) {
  const serverId = identity.id;
  const { publish, listen } = createPublisher(logger);
  const waiters = createWaiters({ db: db.reads, logger });
  const registry = createRegistry(logger);
  const { sessions } = registry;
  const pauses = createPauses(db.control, sessions);
  const types = createJobTypes({
    ...{ db: db.control, events: createEvents(logger) },
    onChange: () => wakeups.tellOthers('types'),
  });
  const dispatcher = createDispatcher({
    ...{ db: db.control, serverId, sessions, logger, metrics, pollMs: config.pollMs, publish },
    isPaused: pauses.isPaused,
  });
  const cluster = createCluster(db.control, identity, config.beatMs);
  const common = { db, serverId, logger, metrics, publish };
  const duties = createDuties({ ...config, ...common, cluster, dispatcher, registry, pauses, types });
  const knownTokens = createKnownTokens({ db: db.control, logger });
  const wakeups = createWakeups({
    ...{ url: db.url, db: db.bulk, serverId, logger },
    onHint(hint) {
      if (hint === 'ready') dispatcher.wake();
      else if (hint === 'cancel') duties.lookForCancels();
      else if (hint === 'pause') duties.lookForPauses();
      else if (hint === 'token') knownTokens.refresh();
      else duties.lookForTypes();
    },
    othersAlive: cluster.othersAlive,
  });
  const promoter = createPromoter({ db: db.control, logger, publish });
  listen(waiters.hear);
  listen(metrics.countChanges);
  listen(actOnChanges({ dispatcher, sessions, wakeups, promoter }));
  const core = { publish, waiters, registry, sessions, pauses, types, dispatcher, cluster, duties, wakeups, promoter };
  return { ...core, knownTokens };
}

type Core = ReturnType<typeof buildCore>;

/** Who may call. */
function buildAccess({ config, logger, metrics, db }: Base, { knownTokens, wakeups }: Core) {
  const events = createEvents(logger);
  const wrong = createWrongTokens({
    limit: config.wrongTokenLimit,
    count: () => metrics.wrongTokens.inc(),
    tell: (fields) => events.tell('token.wrong', [fields]),
  });
  const addressOf = createAddressReader(config.trustedProxies);
  const authenticator = createAuthenticator({ config, known: knownTokens, wrong, addressOf });
  const tokens = createTokens({
    db: db.control,
    configured: [
      ...config.tokens.map(({ name, role }) => ({ kind: 'configured' as const, name, role })),
      ...(config.tls?.clients ?? []).map(({ name, role }) => ({ kind: 'certificate' as const, name, role })),
    ],
    onChange() {
      knownTokens.refresh();
      wakeups.tellOthers('token');
    },
  });
  return { authenticator, tokens, denials: createDenials({ db: db.bulk, logger }) };
}

type Access = ReturnType<typeof buildAccess>;

/** Jobs from clients, and outcomes and progress from workers. */
function buildTraffic({ config, logger, identity, metrics, db, stopping }: Base, core: Core & Access) {
  const { authenticator, knownTokens, registry, sessions, types, dispatcher, cluster, wakeups, promoter, publish } =
    core;
  const common = { db: db.control, serverId: identity.id, logger, publish };
  const outcomes = createOutcomes({ ...common, signal: stopping.signal });
  const progress = createProgressWriter(db.bulk);
  const admission = createAdmission({
    ...{
      db: db.bulk,
      dispatcher,
      sessions,
      logger,
      metrics,
      maxPending: config.maxPending,
      auditEnqueues: config.auditEnqueues,
    },
    onReady: () => wakeups.tellOthers('ready'),
    onScheduled(inMs) {
      if (inMs < FAR_AWAY_MS) promoter.expect(inMs);
    },
  });
  const workers = createWorkerSessions({
    ...{ ...common, registry, types, outcomes, progress, limits: config },
    ...{ beatMs: config.beatMs, leaseMs: config.leaseMs },
    clusterId: createClusterIdReader(db.control),
    servers: cluster.addresses,
    onRegistered: dispatcher.wake,
    onOffer: dispatcher.offered,
  });
  const stream = createWorkerStream({
    ...{ sessions: workers, logger, watch: knownTokens.watch },
    authorize: createAuthorizer(config, authenticator, {
      ...{ roles: ['worker'], scope: 'checked', action: 'workerStream' },
    }),
  });
  return { outcomes, progress, admission, stream };
}

function buildSchedules(
  { config, logger, identity, metrics, db }: Base,
  { dispatcher, wakeups, cluster, types, publish }: Core,
) {
  const report = createReport({ events: createEvents(logger), metrics, lateAfterMs: config.lateAfterMs });
  function onFired(): void {
    dispatcher.wake();
    wakeups.tellOthers('ready');
  }
  const ticker = createTicker({
    ...{ db: db.bulk, logger, report, share: cluster.share, onFired },
    cancel: async (jobIds) => publish(await cancelJobs(db.bulk, identity.id, jobIds)),
  });
  const schedules = createScheduleEngine({
    ...{ db, report, types: types.known },
    onChange() {
      ticker.wake();
      onFired();
    },
  });
  return { ticker, schedules };
}

type ApiParts = Core & Access & ReturnType<typeof buildTraffic> & ReturnType<typeof buildSchedules>;

function buildApi({ config, logger, identity, metrics, db }: Base, parts: ApiParts) {
  const { cluster, schedules, stream, authenticator, denials, tokens, knownTokens, publish } = parts;
  const serverId = identity.id;
  const certificate =
    config.tls && createCertificateKeeper({ config: config.tls, logger, events: createEvents(logger) });
  const engine = createEngine({
    ...{ ...parts, db, serverId, metrics, beatMs: config.beatMs, auditEnqueues: config.auditEnqueues },
    sinceBeatMs: cluster.sinceBeatMs,
    certificateExpiresAt: certificate && (() => certificate.expiresAt),
  });
  const workflows = createWorkflowEngine({ db, serverId, publish, limits: config });
  const handlers = createHandlers({ engine, schedules, workflows, tokens, db, config });
  const memory = createMemoryBudget(config.requestMemoryBytes, config.tokenMemoryBytes);
  const checkRate = createRequestRate(config.tokenRequests);
  const http = createHttpServer({ handlers, authenticator, denials, checkRate, config, logger, serverId, memory });
  const calls = createCallStream({
    ...{ handlers, denials, checkRate, logger, memory, watch: knownTokens.watch },
    authorize: createAuthorizer(config, authenticator, { ...ROUTES[CALLED_ROUTE], action: CALLED_ROUTE }),
  });
  routeUpgrades(
    http.server,
    { [STREAM_PATH]: stream, [CALLS_PATH]: calls },
    {
      requireKnown: createAuthorizer(config, authenticator, UNKNOWN_PATH),
      opened: http.connections.know,
      headersOf: (error) => ({ 'drover-server': serverId, ...errorHeaders(error) }),
    },
  );
  return { http, calls, certificate };
}

async function start(parts: Parts): Promise<void> {
  const { config, logger, identity, db } = parts;
  try {
    await parts.certificate?.start(parts.http.server as HttpsServer);
    const { address, port } = await parts.http.listen();
    identity.address = config.publicUrl ?? reachable(address, config.host, port);
  } catch (error) {
    await db.close();
    throw error;
  }
  await publishPayloadLimit(db.control, config.payloadLimitBytes).catch((error: Error) =>
    logger.warn({ event: 'limit.unpublished', err: error }, 'SQL enqueues keep the payload limit they had'),
  );
  for (const part of [parts.duties, parts.dispatcher, parts.promoter, parts.ticker, parts.wakeups, parts.knownTokens])
    part.start();
  logger.info({ event: 'server.listening', server: identity.id, address: identity.address }, 'listening');
}

async function stop(parts: Parts): Promise<void> {
  const { logger, identity, db, admission, dispatcher, promoter, ticker } = parts;
  logger.info({ event: 'server.stopping' }, 'stopping');
  parts.stopping.abort();
  identity.draining = true;
  await sayPresence(db.control, identity).catch((error: Error) =>
    logger.warn({ event: 'goodbye.failed', err: error }, 'could not tell the cluster that this server stops'),
  );
  await Promise.all([admission.stop(), dispatcher.stop(), promoter.stop(), ticker.stop()]);
  parts.waiters.stop();
  await parts.stream.stop(STOP_GRACE_MS);
  await Promise.all([within(STOP_GRACE_MS, parts.outcomes.idle()), within(STOP_GRACE_MS, parts.progress.idle())]);
  await parts.knownTokens.stop();
  await Promise.all([parts.duties.stop(), parts.wakeups.stop(), parts.calls.stop(STOP_GRACE_MS), parts.http.close()]);
  await parts.certificate?.stop();
  await leaveCluster(db.control, identity.id).catch((error: Error) =>
    logger.warn({ event: 'goodbye.failed', err: error }, 'could not leave the cluster'),
  );
  await db.close();
  logger.info({ event: 'server.closed' }, 'stopped');
}

/** An address that others can use: a server that listens on all interfaces is announced by its host name. */
function reachable(address: string, host: string, port: number): string {
  if (host !== '0.0.0.0' && host !== '::') return address;
  return `${new URL(address).protocol}//${hostname()}:${port}`;
}
