/** What a worker can request from its server, over any channel. */
import { type Hello, isStorableJson, type Outcome } from '@drover/protocol';
import { releaseJobs } from '../lifecycle/release.js';
import { noteBeat, type WorkerBeat } from './leases.js';
import type { ProgressReport, ProgressWriter } from './progress.js';
import { type Connected, type RegistrationDeps, registerWorker } from './register-worker.js';
import { holds, type Session } from './session.js';
import { endSession, leaveSession } from './session-store.js';
import { type Settled, type SettlingDeps, settleOutcomes } from './settle-outcomes.js';

export type WorkerSessions = {
  /** Undefined if the channel was closed meanwhile. Rejects with DroverError: wrong_cluster, overtaken, forbidden. */
  register(hello: Hello, connected: Connected): Promise<Session | undefined>;
  /** The worker accepts up to this many assignments on its channel in total. */
  offer(session: Session, window: number): void;
  /** Resolves after the commit; never rejects. */
  settle(session: Session, items: Outcome[]): Promise<Settled>;
  /** Never rejects. */
  reportProgress(session: Session, items: ProgressReport[]): Promise<void> | undefined;
  /** Confirmed over the channel when the lease is renewed. */
  beat(session: Session, beat: WorkerBeat): void;
  /** The worker accepts no more jobs. */
  drain(session: Session): void;
  /**
   * The worker leaves permanently. What it still holds is handed back. Returns whether that is durable; never
   * rejects.
   */
  resign(session: Session): Promise<boolean>;
  /** The channel is gone; the session lives on until its lease expires. */
  leave(session: Session, why: string): void;
};

export type WorkerSessionsDeps = RegistrationDeps &
  SettlingDeps & {
    progress: ProgressWriter;
    /** Called when a worker accepts more. */
    onOffer(): void;
  };

export function createWorkerSessions(deps: WorkerSessionsDeps): WorkerSessions {
  const { db, logger, registry, serverId } = deps;

  function noteLeft(session: Session, why: string): void {
    leaveSession(db, serverId, session, why).catch((error: Error) =>
      logger.debug({ event: 'worker.unnoted', err: error }, 'a lost connection could not be noted'),
    );
  }

  async function end(session: Session): Promise<void> {
    // First, so that the renewal does not report its session as lost, and a claim in progress hands back what it was
    // granted for this session.
    registry.remove(session);
    const rest = await endSession(db, serverId, session);
    if (rest.length > 0) deps.publish(await releaseJobs(db, rest));
    logger.info(
      { event: 'worker.resigned', worker: session.name, session: session.id, handedBack: rest.length },
      'worker resigned',
    );
  }

  return {
    register: (hello, connected) => registerWorker(deps, hello, connected),
    offer(session, window) {
      if (window <= session.window) return;
      session.window = window;
      deps.onOffer();
    },
    settle: (session, items) => settleOutcomes(deps, session, items),
    reportProgress(session, items) {
      // Of a job only the last value counts. Checked here, because the statement that writes it is shared with other workers.
      const latest = new Map(items.map((item) => [item.id, item]));
      const writable = [...latest.values()].filter((item) => holds(session, item) && isStorableJson(item.value));
      if (writable.length === 0) return undefined;
      return deps.progress
        .report(writable)
        .catch((error: Error) =>
          logger.warn({ event: 'progress.failed', err: error }, 'progress could not be written'),
        );
    },
    beat: noteBeat,
    drain(session) {
      session.draining = true;
    },
    resign(session) {
      return end(session).then(
        () => true,
        (error: Error) => {
          logger.warn({ event: 'resign.failed', err: error }, 'a worker could not resign cleanly');
          noteLeft(session, 'it resigned while the database was away');
          return false;
        },
      );
    },
    leave(session, why) {
      if (session.closed) return;
      registry.remove(session);
      noteLeft(session, why);
    },
  };
}
