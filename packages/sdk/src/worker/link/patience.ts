/**
 * How long the link waits for one server, and between two rounds over all of them. Pure.
 *
 * Without a lease there is nothing to lose, and servers that start or are overloaded get their time. With one,
 * all waits are shares of it: silence of a server is noticed when the lease is about half over, and in the rest
 * the worker must get past several servers that do not answer before it has to stop its jobs.
 */
const HANDSHAKE_MS = 10_000;
const WELCOME_MS = 20_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;

const HANDSHAKE_SHARE = 0.1;
const WELCOME_SHARE = 0.2;
const PAUSE_SHARE = 0.05;
/** A sound server on a busy machine needs this much; waiting less would pass over all of them. */
const MIN_ANSWER_MS = 250;

export type Patience = {
  /** For the TCP and WebSocket handshakes. */
  handshakeMs: number;
  /** From the start of the handshake to the answer to `hello`. */
  welcomeMs: number;
  longestPauseMs: number;
};

/** `leaseMs` is undefined if there is no lease that could be kept. */
export function patienceWith(leaseMs: number | undefined): Patience {
  const lease = leaseMs ?? Number.POSITIVE_INFINITY;
  return {
    handshakeMs: Math.min(HANDSHAKE_MS, Math.max(MIN_ANSWER_MS, lease * HANDSHAKE_SHARE)),
    welcomeMs: Math.min(WELCOME_MS, Math.max(MIN_ANSWER_MS, lease * WELCOME_SHARE)),
    longestPauseMs: Math.min(LONGEST_PAUSE_MS, lease * PAUSE_SHARE),
  };
}

/** After the given number of rounds over all servers in which none took the worker. `random` is from 0 to 1. */
export function pauseAfter(rounds: number, longestPauseMs: number, random: number): number {
  const limitMs = Math.min(longestPauseMs, FIRST_PAUSE_MS * 2 ** Math.max(0, rounds - 1));
  return Math.round(limitMs * (0.5 + random / 2));
}
