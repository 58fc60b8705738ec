/**
 * The periodic duties of a server. Each is a bounded batch that any server may do at any time; none needs
 * a leader, and all of them being done by several servers at once costs a little and harms nothing.
 */
import type { Logger } from 'pino';
import type { Database } from '../db/database.js';
import { passOnCancels } from '../dispatch/cancellations.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import { releaseUnknownGrants } from '../dispatch/reconcile.js';
import { renewSessions } from '../dispatch/session-store.js';
import { cancelReturnedJobs } from '../lifecycle/cancel.js';
import { expireJobs } from '../lifecycle/expire.js';
import { loseExpiredSessions } from '../lifecycle/lose.js';
import { ensurePartitions, pruneHistory } from '../lifecycle/prune.js';
import { createPeriodic, type Periodic } from './periodic.js';
import { aliveServers, type ServerIdentity, sayPresence } from './presence.js';

export type Duties = {
  start(): void;
  stop(): Promise<void>;
  /** Addresses of the live servers, this one first. */
  servers(): string[];
  othersAlive(): boolean;
  /** Passes on cancel requests now instead of with the next beat. */
  lookForCancels(): void;
  /** When the last beat reached the database; for the health check. */
  readonly lastBeatAt: number | undefined;
};

type DutiesDeps = {
  db: Database;
  identity: ServerIdentity;
  dispatcher: Dispatcher;
  logger: Logger;
  beatMs: number;
  leaseMs: number;
  retentionMs: number;
  onFinished(ids: readonly string[]): void;
};

const BATCH = 1000;
const EXPIRY_EVERY_MS = 1000;
const PRUNE_EVERY_MS = 10 * 60_000;
/** Beats a worker may miss before its lease is no longer renewed. */
const MISSED_BEATS = 2.5;
/** A share of the lease that is added before a session is given up: clocks may run at different speeds. */
const DRIFT = 0.01;
const GRACE_MS = 1000;

export function createDuties(deps: DutiesDeps): Duties {
  const { db, identity, dispatcher, logger, beatMs, leaseMs } = deps;
  let others: { id: string; address: string }[] = [];
  let lastBeatAt: number | undefined;
  /**
   * After a time in which this server could renew no lease (its start, an outage of the database) an expired
   * lease proves nothing: the workers get as long as a lease to come back before any is given up.
   */
  let giveUpNobodyUntil = Number.POSITIVE_INFINITY;

  async function beat(): Promise<void> {
    await sayPresence(db.control, identity);
    const now = performance.now();
    if (lastBeatAt === undefined || now - lastBeatAt > MISSED_BEATS * beatMs) giveUpNobodyUntil = now + leaseMs;
    lastBeatAt = now;
    others = (await aliveServers(db.control, 3 * beatMs)).filter((server) => server.id !== identity.id);
    await renewLeases();
    await passOnCancels(db.control, dispatcher.sessions, logger);
  }

  async function renewLeases(): Promise<void> {
    const sessions = [...dispatcher.sessions.values()];
    if (sessions.length === 0) return;
    const now = performance.now();
    const beats = sessions.map((session) => ({
      id: session.id,
      heard: now - session.lastHeardAt < MISSED_BEATS * beatMs,
      running: session.grants.size,
      draining: session.draining,
    }));
    const kept = await renewSessions(db.control, identity.id, beats, leaseMs);
    for (const session of sessions) {
      if (!kept.has(session.id)) session.disconnect('its session was given up or moved to another server');
    }
  }

  async function recover(): Promise<void> {
    await giveUpLostWorkers();
    const released = await releaseUnknownGrants(db.control, [...dispatcher.sessions.values()], 2 * beatMs);
    if (released > 0) {
      logger.warn({ jobs: released }, 'jobs whose worker did not know them were handed back');
      dispatcher.wake();
    }
  }

  async function giveUpLostWorkers(): Promise<void> {
    if (performance.now() < giveUpNobodyUntil) return;
    const lost = await loseExpiredSessions(db.control, identity.id, BATCH, leaseMs * DRIFT + GRACE_MS);
    if (lost.sessions > 0) logger.warn(lost, 'workers were lost; their jobs go back to the queue');
    if (lost.returned > 0) dispatcher.wake();
    deps.onFinished(lost.failed);
  }

  async function expire(): Promise<void> {
    const { failed, stopping } = await expireJobs(db.control, identity.id, BATCH);
    deps.onFinished(failed);
    if (stopping.length > 0) await passOnCancels(db.control, dispatcher.sessions, logger);
    deps.onFinished(await cancelReturnedJobs(db.control, identity.id, BATCH));
  }

  async function prune(): Promise<void> {
    await ensurePartitions(db.reads);
    const { dropped } = await pruneHistory(db.reads, deps.retentionMs);
    if (dropped.length > 0) logger.info({ dropped }, 'history past its retention was dropped');
  }

  const periodic: Periodic[] = [
    createPeriodic('beat', beatMs, beat, logger),
    createPeriodic('recover', beatMs, recover, logger),
    createPeriodic('expire', EXPIRY_EVERY_MS, expire, logger),
    createPeriodic('prune', PRUNE_EVERY_MS, prune, logger),
  ];

  return {
    start() {
      for (const duty of periodic) duty.start();
    },
    async stop() {
      await Promise.all(periodic.map((duty) => duty.stop()));
    },
    servers: () => [identity.address, ...others.map((server) => server.address)],
    othersAlive: () => others.length > 0,
    lookForCancels() {
      passOnCancels(db.control, dispatcher.sessions, logger).catch((error: Error) =>
        logger.warn({ err: error }, 'cancels could not be passed on yet'),
      );
    },
    get lastBeatAt() {
      return lastBeatAt;
    },
  };
}
