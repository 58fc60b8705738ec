/**
 * Leases of the workers that this server serves. One statement per round renews the leases of all workers whose beat has come,
 * and only then are the beats answered. So an answered beat proves that the lease in the database reaches at least `leaseMs`
 * from the time the worker sent it. The worker relies on that when it decides to stop its jobs by itself.
 *
 * Suspicion comes in two steps: a worker that has missed beats, or does not take in what it is sent, gets no new work; when its
 * lease has expired, its jobs go to others (lifecycle/lose).
 */

import type { WorkerMessage } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { isPassing } from '../db/database-error.js';
import { splitBatch } from '../db/split-batch.js';
import { setPaused } from './pause-worker.js';
import type { Registry } from './registry.js';
import type { Session } from './session.js';
import { type Beat, renewSessions } from './session-store.js';

/** Periods without a beat after which a worker gets no new work. */
const MISSED_BEATS = 2;
/** Periods in which a worker may leave what it was sent untouched, for instance while a handler blocks it. */
const LAGGING_BEATS = 3;

/** What a worker has not taken in counts from here on; a few frames may be on their way to every worker. */
const MIN_BACKLOG_BYTES = 64 * 1024;

type LeasesDeps = {
  db: Runner;
  serverId: string;
  registry: Registry;
  logger: Logger;
  beatMs: number;
  leaseMs: number;
  servers(): string[];
};

export type WorkerBeat = Pick<Extract<WorkerMessage, { kind: 'beat' }>, 'beat' | 'received' | 'trouble'>;

/** A session, with the beat that is renewed now; a later one may come while the statement is running. */
type Served = { session: Session; beat: number };
/** Undefined: the session is no longer this server's. */
type Renewed = { paused: boolean } | undefined;

export type Leases = { renew(): Promise<void> };

export function createLeases({ db, serverId, registry, logger, beatMs, leaseMs, servers }: LeasesDeps): Leases {
  function suspect(session: Session, now: number): void {
    const missed = now - session.lastBeatAt > MISSED_BEATS * beatMs;
    const deaf = session.laggingSince !== undefined && now - session.laggingSince > LAGGING_BEATS * beatMs;
    const suspected = missed || deaf;
    if (suspected !== session.suspected) {
      const why = missed
        ? 'worker missed beats'
        : deaf
          ? 'worker does not take in what it is sent'
          : 'worker recovered';
      const event = suspected ? 'worker.suspected' : 'worker.recovered';
      logger.warn({ event, worker: session.name, session: session.id }, why);
    }
    session.suspected = suspected;
  }

  /** Whether it has taken in nothing of what it was sent for a lease: a peer that only fills the memory of this server. */
  function isStuck(session: Session, now: number): boolean {
    const { backlogBytes: bytes } = session.channel;
    if (bytes < MIN_BACKLOG_BYTES) session.backlog = undefined;
    else if (session.backlog === undefined || bytes < session.backlog.bytes) session.backlog = { bytes, since: now };
    return session.backlog !== undefined && now - session.backlog.since > leaseMs;
  }

  function beatOf(session: Session, now: number): Beat {
    const silentMs = now - session.lastBeatAt;
    return {
      id: session.id,
      heard: session.beat > session.confirmedBeat,
      silent_ms: silentMs,
      missed_beats: Math.floor(silentMs / beatMs),
      running: session.grants.size,
      draining: session.draining,
      trouble: session.trouble,
    };
  }

  function confirm(session: Session, beat: number, { paused }: { paused: boolean }): void {
    setPaused(session, paused);
    if (beat <= session.confirmedBeat || session.closed) return;
    session.confirmedBeat = beat;
    session.channel.confirmBeat(beat, servers());
  }

  function conclude({ session, beat }: Served, renewed: Renewed): void {
    if (renewed) confirm(session, beat, renewed);
    // one that has just resigned ended its session itself
    else if (!session.closed) registry.disconnect(session, 'its session has ended or moved to another server');
  }

  /** A worker whose beat is refused harms only itself: it connects again, or its lease expires. */
  function refuse({ session }: Served, error: Error): Error {
    const fields = { event: 'lease.refused', err: error, worker: session.name, session: session.id };
    logger.error(fields, 'beat was refused by the database');
    registry.disconnect(session, 'its beat was refused by the database');
    return error;
  }

  async function renewTogether(served: readonly Served[], now: number): Promise<Renewed[]> {
    const beats = served.map(({ session }) => beatOf(session, now));
    const kept = await renewSessions(db, serverId, beats, leaseMs);
    return served.map(({ session }) => kept.get(session.id));
  }

  return {
    async renew() {
      const now = performance.now();
      for (const session of [...registry.sessions.values()]) {
        if (isStuck(session, now)) registry.disconnect(session, 'it has not taken in what it was sent for a lease');
      }
      const served: Served[] = [...registry.sessions.values()].map((session) => ({ session, beat: session.beat }));
      if (served.length === 0) return;
      for (const { session } of served) suspect(session, now);
      failpoint('renew.before');
      const results = await splitBatch<Served, Renewed>(served, { run: (some) => renewTogether(some, now), refuse });
      for (const [place, result] of results.entries()) {
        if (!(result instanceof Error)) conclude(served[place] as Served, result);
      }
      const failure = results.find((result) => isPassing(result));
      if (failure) throw failure;
    },
  };
}

/** Notes a beat of the worker. */
export function noteBeat(session: Session, { beat, received, trouble }: WorkerBeat): void {
  const now = performance.now();
  session.lastBeatAt = now;
  if (beat > session.beat) session.beat = beat;
  if (received > session.received || received >= session.sent) session.laggingSince = undefined;
  else session.laggingSince ??= now;
  session.received = received;
  session.trouble = trouble;
}
