/** The servers of the cluster as this one knows them since its last beat. */
import type { Runner } from '../db/database.js';
import { type ServerIdentity, sayPresence } from './presence.js';

export type Cluster = {
  /** Records this server's presence and reads the others'. */
  beat(): Promise<void>;
  /** Addresses of the live servers, this one first. */
  addresses(): string[];
  othersAlive(): boolean;
  /**
   * This server's index among the live ones. All servers agree on it, except for one beat after a server joins or
   * leaves.
   */
  share(): { index: number; of: number };
  /** Milliseconds since a beat last reached the database; for the health check. */
  sinceBeatMs(): number | undefined;
};

/** Another server counts as alive for this many beats after its last one. */
const ALIVE_BEATS = 3;

export function createCluster(db: Runner, identity: ServerIdentity, beatMs: number): Cluster {
  let others: { id: string; address: string }[] = [];
  let lastBeatAt: number | undefined;

  return {
    async beat() {
      others = await sayPresence(db, identity, ALIVE_BEATS * beatMs);
      lastBeatAt = performance.now();
    },
    addresses: () => [identity.address, ...others.map((server) => server.address)],
    othersAlive: () => others.length > 0,
    share() {
      const before = others.filter((server) => server.id < identity.id).length;
      return { index: before, of: others.length + 1 };
    },
    sinceBeatMs: () => (lastBeatAt === undefined ? undefined : performance.now() - lastBeatAt),
  };
}
