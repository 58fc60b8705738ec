/**
 * How long the link waits for one server, and between two rounds over all of them. Pure.
 *
 * Before the first lease there is nothing to lose, and servers that start or are overloaded get their time. Then
 * all waits are shares of the lease. While it is held, the shares are small: silence of a server is noticed when
 * the lease is about half over, and in the rest the worker must get past several servers that do not answer
 * before it has to stop its jobs. When it is over, they are larger, but still such that the worker comes back
 * within a lease's time after an outage of the database: so long everybody is waited for.
 */
const LONGEST = { handshake: 10_000, welcome: 20_000, pause: 5000 };
const SHARES = {
  held: { handshake: 0.1, welcome: 0.2, pause: 0.05 },
  over: { handshake: 0.5, welcome: 0.5, pause: 0.1 },
};
/** A sound server on a busy machine needs this much; waiting less would pass over all of them. */
const MIN_ANSWER_MS = 250;
const FIRST_PAUSE_MS = 100;

export type Patience = {
  /** For the TCP and WebSocket handshakes. */
  handshakeMs: number;
  /** From the start of the handshake to the answer to `hello`. */
  welcomeMs: number;
  longestPauseMs: number;
};

export function patienceWith(lease: { leaseMs: number; isOver: boolean } | undefined): Patience {
  const leaseMs = lease?.leaseMs ?? Number.POSITIVE_INFINITY;
  const share = lease?.isOver === true ? SHARES.over : SHARES.held;
  return {
    handshakeMs: Math.min(LONGEST.handshake, Math.max(MIN_ANSWER_MS, leaseMs * share.handshake)),
    welcomeMs: Math.min(LONGEST.welcome, Math.max(MIN_ANSWER_MS, leaseMs * share.welcome)),
    longestPauseMs: Math.min(LONGEST.pause, leaseMs * share.pause),
  };
}

/** After the given number of rounds over all servers in which none took the worker. `random` is from 0 to 1. */
export function pauseAfter(rounds: number, longestPauseMs: number, random: number): number {
  const limitMs = Math.min(longestPauseMs, FIRST_PAUSE_MS * 2 ** Math.max(0, rounds - 1));
  return Math.round(limitMs * (0.5 + random / 2));
}
