/** What the suite knows about the hostile peer and the servers that it attacks. */

/** Its name, as a worker. */
export const HOSTILE = 'hostile';

/** Rounds of each attack. */
export type AttackCount = Readonly<Record<string, number>>;

/** Measured at a server while it was attacked. */
export type ServerHealth = {
  server: string;
  /** Resident memory at its peak. */
  peakBytes: number;
  /** Delay of its event loop, at the 99th percentile of the attack. */
  loopP99Ms: number;
};

export type Assault = { attacks: AttackCount; servers: readonly ServerHealth[] };
