/**
 * Sessions of which this server does not know for certain what the database has granted them: the answer to a claim or an insert
 * was lost. They are compared with the database (sessions/compare-grants) before they get more jobs, and only between two claims:
 * the grants of a claim that is under way are in the database before its answer has come. The age of a grant proves nothing,
 * since an answer may take any time.
 */
import type { Runner } from '../db/database.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseUnknownGrants } from '../sessions/compare-grants.js';
import type { Sessions } from '../sessions/registry.js';
import type { Session } from '../sessions/session.js';

export type Doubts = {
  add(session: Session): void;
  /** Lets the next `settle` compare all sessions. Returns how many grants their workers did not know. */
  compareAll(): Promise<number>;
  /** Whether `settle` has something to do. */
  isAny(): boolean;
  /** Must not run while a claim is under way. */
  settle(): Promise<void>;
  /** Resolves the promises of those that wait for a comparison. */
  stop(): void;
};

type DoubtsDeps = { db: Runner; serverId: string; sessions: Sessions; publish: Publish };

export function createDoubts({ db, serverId, sessions, publish }: DoubtsDeps): Doubts {
  const doubtful = new Set<Session>();
  let comparisons: ((released: number) => void)[] = [];

  return {
    add: (session) => void doubtful.add(session),
    compareAll: () => new Promise((resolve) => comparisons.push(resolve)),
    isAny: () => doubtful.size > 0 || comparisons.length > 0,
    async settle() {
      const waiting = comparisons;
      comparisons = [];
      const concerned = waiting.length > 0 ? [...sessions.values()] : [...doubtful];
      doubtful.clear();
      const open = concerned.filter((session) => !session.closed);
      let released = 0;
      try {
        const changes = open.length > 0 ? await releaseUnknownGrants(db, serverId, open) : [];
        released = changes.length;
        publish(changes);
      } catch (error) {
        for (const session of open) doubtful.add(session);
        throw error;
      } finally {
        for (const done of waiting) done(released);
      }
    },
    stop() {
      for (const done of comparisons.splice(0)) done(0);
    },
  };
}
