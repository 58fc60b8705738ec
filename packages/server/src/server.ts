/**
 * A Drover server: the composition root. It builds the parts, gives each what it needs, and starts and
 * stops them in order. A server has no state of its own that the database and the workers could not
 * rebuild, so any number of them are equal.
 */
import { hostname } from 'node:os';
import { CALLS_PATH, DroverError, newId, STREAM_PATH } from '@drover/protocol';
import type { Logger } from 'pino';
import { createAdmission } from './admission/admission.js';
import { errorHeaders } from './api/answer-error.js';
import { createAuthorizer } from './api/auth.js';
import { createCallStream } from './api/call-stream.js';
import { createHandlers } from './api/handlers.js';
import { createHttpServer } from './api/http-server.js';
import { within } from './base/within.js';
import type { ServerConfig } from './config/server-config.js';
import { connectDatabase } from './db/database.js';
import { actOnChanges } from './dispatch/act-on-changes.js';
import { createDispatcher } from './dispatch/dispatcher.js';
import { createPauses } from './dispatch/pauses.js';
import { createWaiters } from './dispatch/waiters.js';
import { createWakeups } from './dispatch/wakeups.js';
import { createScheduleEngine } from './engine/schedules.js';
import type { Engine } from './engine.js';
import { createDue } from './housekeeping/due.js';
import { createDuties } from './housekeeping/duties.js';
import { leaveCluster, type ServerIdentity, sayPresence } from './housekeeping/presence.js';
import { createClusterIdReader, publishPayloadLimit } from './housekeeping/settings.js';
import { cancelJobs, jobState } from './lifecycle/cancel.js';
import { failJobByHand } from './lifecycle/fail-by-hand.js';
import { createPublisher } from './lifecycle/publish.js';
import { retryJob } from './lifecycle/retry.js';
import { createReport } from './schedules/report.js';
import { createTicker } from './schedules/ticker.js';
import { createOutcomes } from './sessions/outcomes.js';
import { pauseWorker, resumeWorker, setPaused } from './sessions/pause-worker.js';
import { createProgressWriter } from './sessions/progress.js';
import { createRegistry } from './sessions/registry.js';
import { createWorkerSessions } from './sessions/worker-sessions.js';
import { routeUpgrades } from './sockets/upgrades.js';
import { createEvents } from './telemetry/log-events.js';
import { createMetrics } from './telemetry/metrics.js';
import { VERSION } from './version.js';
import { createWorkerStream } from './workers/stream/stream.js';

export type DroverServer = {
  readonly id: string;
  /** Where it listens, once started. */
  readonly address: string;
  start(): Promise<void>;
  /** Finishes what is under way and leaves the cluster. May be called twice. */
  stop(): Promise<void>;
};

/** How long workers get to move to another server, and a last batch to be written. */
const STOP_GRACE_MS = 5000;
/** A due-time further away than this is found by the regular look. */
const FAR_AWAY_MS = 1000;

export function createServer(config: ServerConfig, { logger }: { logger: Logger }): DroverServer {
  const id = newId();
  const identity: ServerIdentity = {
    id,
    address: '',
    host: hostname(),
    pid: process.pid,
    version: VERSION,
    draining: false,
  };
  const stopping = new AbortController();
  const metrics = createMetrics();
  const db = connectDatabase({
    url: config.databaseUrl,
    poolSize: config.poolSize,
    onError: (error) => logger.warn({ err: error }, 'a database connection failed'),
    onFailure: (kind) => metrics.databaseErrors.inc({ kind }),
    onMove: (url) => logger.warn({ host: new URL(url).host }, 'using another database host'),
  });

  const { publish, listen } = createPublisher(logger);
  const waiters = createWaiters({ db: db.reads, logger });
  const registry = createRegistry(logger);
  const { sessions } = registry;
  const pauses = createPauses(db.control, sessions);
  const dispatcher = createDispatcher({
    ...{ db: db.control, serverId: id, sessions, logger, metrics, pollMs: config.pollMs, publish },
    isPaused: pauses.isPaused,
  });
  const duties = createDuties({ ...config, db, identity, dispatcher, registry, pauses, logger, metrics, publish });
  const wakeups = createWakeups({
    url: db.url,
    db: db.bulk,
    serverId: id,
    logger,
    onHint(hint) {
      if (hint === 'ready') dispatcher.wake();
      else if (hint === 'cancel') duties.lookForCancels();
      else duties.lookForPauses();
    },
    othersAlive: duties.othersAlive,
  });
  const tellReady = () => wakeups.tellOthers('ready');
  const due = createDue({ db: db.control, logger, publish });
  listen(waiters.hear);
  listen(metrics.countChanges);
  listen(actOnChanges({ dispatcher, sessions, wakeups, due }));
  const outcomes = createOutcomes({ db: db.control, serverId: id, logger, publish, signal: stopping.signal });
  const admission = createAdmission({
    db: db.bulk,
    dispatcher,
    sessions,
    logger,
    metrics,
    maxPending: config.maxPending,
    onReady: tellReady,
    onScheduled(inMs) {
      if (inMs < FAR_AWAY_MS) due.expect(inMs);
    },
  });
  const progress = createProgressWriter(db.bulk);
  const workerSessions = createWorkerSessions({
    ...{ db: db.control, logger, serverId: id, registry, outcomes, progress, publish },
    ...{ beatMs: config.beatMs, leaseMs: config.leaseMs, limits: config },
    clusterId: createClusterIdReader(db.control),
    servers: duties.servers,
    onRegistered: dispatcher.wake,
    onOffer: dispatcher.offered,
  });
  const stream = createWorkerStream({
    sessions: workerSessions,
    logger,
    authorize: createAuthorizer(config, ['worker']),
  });

  const engine: Engine = {
    enqueue: admission.enqueue,
    waitForFinish: waiters.wait,
    async cancel(jobId) {
      const changes = await cancelJobs(db.bulk, id, [jobId]);
      publish(changes);
      const [change] = changes;
      if (!change) return wrongStateOf(jobId);
      return change.stop ? 'requested' : 'cancelled';
    },
    async retry(jobId) {
      const changes = await retryJob(db.bulk, jobId);
      publish(changes);
      return changes.length > 0 ? 'done' : wrongStateOf(jobId);
    },
    async fail(jobId, reason) {
      const changes = await failJobByHand(db.bulk, id, jobId, reason);
      publish(changes);
      return changes.length > 0 ? 'done' : wrongStateOf(jobId);
    },
    async pause(scope, name, by, note) {
      const paused = await pauses.pause(scope, name, by, note);
      await pauses.refresh(dispatcher);
      wakeups.tellOthers('pause');
      return paused;
    },
    async resume(scope, name) {
      const resumed = await pauses.resume(scope, name);
      await pauses.refresh(dispatcher);
      wakeups.tellOthers('pause');
      return resumed;
    },
    // a worker of another server learns of it with the next renewal of its lease
    async pauseWorker(sessionId, by, note) {
      const paused = await pauseWorker(db.control, sessionId, by, note);
      const session = sessions.get(sessionId);
      if (paused && session) setPaused(session, true);
      return paused;
    },
    async resumeWorker(sessionId) {
      const found = await resumeWorker(db.control, sessionId);
      const session = sessions.get(sessionId);
      if (found && session) setPaused(session, false);
      if (found) dispatcher.wake();
      return found;
    },
    health() {
      const sinceBeat = sinceBeatMs();
      const late = sinceBeat === undefined || sinceBeat > 3 * config.beatMs;
      return [
        late
          ? { check: 'beat', status: 'error', message: 'no beat of this server has reached the database lately' }
          : { check: 'beat', status: 'okay' },
      ];
    },
    metrics: () =>
      metrics.text({
        workers: sessions.size,
        heldJobs: sum(sessions.values(), ({ grants }) => grants.size),
        pendingJobs: admission.pending,
        sinceBeatMs: sinceBeatMs(),
      }),
  };

  function sinceBeatMs(): number | undefined {
    return duties.lastBeatAt === undefined ? undefined : performance.now() - duties.lastBeatAt;
  }

  async function wrongStateOf(jobId: string) {
    const state = await jobState(db.reads, jobId);
    return state === undefined ? ('not_found' as const) : { wrongState: state };
  }

  const report = createReport({ events: createEvents(logger), metrics, lateAfterMs: config.lateAfterMs });
  const ticker = createTicker({
    ...{ db: db.bulk, logger, report },
    share: duties.share,
    onFired() {
      dispatcher.wake();
      tellReady();
    },
    cancel: async (jobIds) => publish(await cancelJobs(db.bulk, id, jobIds)),
  });

  const schedules = createScheduleEngine({
    ...{ db, report },
    onChange() {
      ticker.wake();
      dispatcher.wake();
      tellReady();
    },
  });
  const handlers = createHandlers({ engine, schedules, db, config });
  const http = createHttpServer({ handlers, config, logger, serverId: id });
  const calls = createCallStream({ handlers, config, logger });
  routeUpgrades(http.server, { [STREAM_PATH]: stream, [CALLS_PATH]: calls }, (error) => ({
    'drover-server': id,
    ...errorHeaders(error),
  }));

  let stopped: Promise<void> | undefined;

  async function stop(): Promise<void> {
    logger.info('stopping');
    stopping.abort();
    identity.draining = true;
    await sayPresence(db.control, identity).catch((error: Error) =>
      logger.warn({ err: error }, 'could not say goodbye'),
    );
    await Promise.all([admission.stop(), dispatcher.stop(), due.stop(), ticker.stop()]);
    waiters.stop();
    await stream.stop(STOP_GRACE_MS);
    await Promise.all([within(STOP_GRACE_MS, outcomes.idle()), within(STOP_GRACE_MS, progress.idle())]);
    await Promise.all([duties.stop(), wakeups.stop(), calls.stop(STOP_GRACE_MS), http.close()]);
    await leaveCluster(db.control, id).catch((error: Error) =>
      logger.warn({ err: error }, 'could not leave the cluster'),
    );
    await db.close();
    logger.info('stopped');
  }

  return {
    id,
    get address() {
      return identity.address;
    },
    async start() {
      if (stopped) throw new DroverError('shutting_down', 'a stopped server cannot be started again');
      try {
        const { address, port } = await http.listen();
        identity.address = config.publicUrl ?? reachable(address, config.host, port);
      } catch (error) {
        await db.close();
        throw error;
      }
      await publishPayloadLimit(db.control, config.payloadLimitBytes).catch((error: Error) =>
        logger.warn({ err: error }, 'SQL enqueues keep the payload limit they had'),
      );
      duties.start();
      dispatcher.start();
      due.start();
      ticker.start();
      wakeups.start();
      logger.info({ server: id, address: identity.address }, 'listening');
    },
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
}

/** An address that others can use: who listens on all interfaces is known by the name of the machine. */
function reachable(address: string, host: string, port: number): string {
  return host === '0.0.0.0' || host === '::' ? `http://${hostname()}:${port}` : address;
}

function sum<Item>(items: Iterable<Item>, countOf: (item: Item) => number): number {
  let total = 0;
  for (const item of items) total += countOf(item);
  return total;
}
