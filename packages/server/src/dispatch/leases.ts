/**
 * Leases of the workers that this server serves: one statement a round renews all that were heard of, and
 * only then are their beats answered. So an answered beat proves that the lease in the database reaches at
 * least `leaseMs` from the moment the worker sent it, which is what the worker counts on when it decides to
 * stop its jobs by itself.
 *
 * Suspicion comes in two steps: whoever has missed beats, or does not take in what it is sent, gets no new
 * work; when the lease is over, its jobs go to others (lifecycle/lose).
 */

import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import type { Dispatcher } from './dispatcher.js';
import type { Session } from './session.js';
import { renewSessions } from './session-store.js';

/** Periods without a beat after which a worker gets no new work. */
const MISSED_BEATS = 2;
/** Periods in which a worker may leave what it was sent untouched, for instance while a handler blocks it. */
const LAGGING_BEATS = 3;

type LeasesDeps = {
  db: Runner;
  serverId: string;
  dispatcher: Dispatcher;
  logger: Logger;
  beatMs: number;
  leaseMs: number;
  servers(): string[];
};

export type Leases = { renew(): Promise<void> };

export function createLeases({ db, serverId, dispatcher, logger, beatMs, leaseMs, servers }: LeasesDeps): Leases {
  function suspect(session: Session, now: number): void {
    const missed = now - session.lastBeatAt > MISSED_BEATS * beatMs;
    const deaf = session.laggingSince !== undefined && now - session.laggingSince > LAGGING_BEATS * beatMs;
    const suspected = missed || deaf;
    if (suspected !== session.suspected) {
      const why = missed ? 'it has missed beats' : deaf ? 'it does not take in what it is sent' : 'it is well again';
      logger.warn({ worker: session.name, session: session.id, suspected }, why);
    }
    session.suspected = suspected;
  }

  return {
    async renew() {
      const sessions = [...dispatcher.sessions.values()];
      if (sessions.length === 0) return;
      const now = performance.now();
      const heardBeats = new Map(sessions.map((session) => [session, session.beat]));
      const beats = sessions.map((session) => {
        suspect(session, now);
        const { id, draining, trouble } = session;
        const heard = session.beat > session.confirmedBeat;
        const silentMs = now - session.lastBeatAt;
        const missed = Math.floor(silentMs / beatMs);
        return {
          id,
          heard,
          silent_ms: silentMs,
          missed_beats: missed,
          running: session.grants.size,
          draining,
          trouble,
        };
      });
      failpoint('renew.before');
      const kept = await renewSessions(db, serverId, beats, leaseMs);
      for (const session of sessions) {
        const row = kept.get(session.id);
        if (!row) {
          // one that has just said bye ended its session itself
          if (!session.closed) session.disconnect('its session was given up or moved to another server');
          continue;
        }
        setPaused(session, row.paused);
        const beat = heardBeats.get(session) ?? 0;
        if (beat <= session.confirmedBeat || session.closed) continue;
        session.confirmedBeat = beat;
        session.send(JSON.stringify({ kind: 'beat', beat, servers: servers() }));
      }
    },
  };
}

/** A paused worker gives back what it has not started. */
export function setPaused(session: Session, paused: boolean): void {
  if (paused && !session.paused && !session.ignoresPause && !session.closed) session.send('{"kind":"handBack"}');
  session.paused = paused;
}

/** Notes a beat of the worker. */
export function noteBeat(session: Session, beat: number, received: number, trouble: string | undefined): void {
  const now = performance.now();
  session.lastBeatAt = now;
  if (beat > session.beat) session.beat = beat;
  if (received > session.received || received >= session.sent) session.laggingSince = undefined;
  else session.laggingSince ??= now;
  session.received = received;
  session.trouble = trouble;
}
