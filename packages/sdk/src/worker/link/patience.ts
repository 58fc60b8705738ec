/**
 * How long the link waits for one server, between two rounds over all of them, and before it turns to another server
 * after a loss. Pure.
 *
 * Before the first lease there is nothing to lose, so servers that start or are overloaded get long waits. Later all
 * waits are shares of the lease. While the lease is held, the shares are small: a silent server is detected when the
 * lease is about half over, and in the rest the worker must get past several unresponsive servers before it has to
 * stop its jobs. After the lease is over, the shares are larger, but the worker still comes back within one lease
 * after a database outage: that is the grace period.
 *
 * All workers of a server that dies notice it at the same time, and would reconnect to the other servers at once.
 * Each first waits a random part of `spreadMs`. That time comes out of the first half of the lease; the second half
 * is for unresponsive servers.
 */
import { phaseStarts } from './lease-clock.js';

const LONGEST = { handshake: 10_000, welcome: 20_000, pause: 5000, spread: 2000 };
const SHARES = {
  held: { handshake: 0.1, welcome: 0.2, pause: 0.05 },
  over: { handshake: 0.5, welcome: 0.5, pause: 0.1 },
};
/** One second of the default lease; a server accepts some hundred workers in that time. */
const SPREAD_SHARE = 1 / 30;
/** Share of the lease that is reserved for unresponsive servers. */
const SPARE_SHARE = 0.5;
/** A healthy server on a busy machine needs this much. A shorter wait would skip all of them. */
const MIN_ANSWER_MS = 250;
const FIRST_PAUSE_MS = 100;

export type Patience = {
  /** For the TCP and WebSocket handshakes. */
  handshakeMs: number;
  /** From the start of the handshake to the answer to `hello`. */
  welcomeMs: number;
  longestPauseMs: number;
  /** Workers that lose a connection together reconnect spread over this time. */
  spreadMs: number;
};

/** Without a lease: before the first one. */
export function patienceWith(lease: { leaseMs: number; ageMs: number } | undefined): Patience {
  const { leaseMs, ageMs } = lease ?? { leaseMs: Number.POSITIVE_INFINITY, ageMs: 0 };
  const isOver = lease !== undefined && ageMs >= phaseStarts(leaseMs).overMs;
  const share = isOver ? SHARES.over : SHARES.held;
  const spareMs = isOver ? leaseMs : Math.max(0, leaseMs * (1 - SPARE_SHARE) - ageMs);
  return {
    handshakeMs: Math.min(LONGEST.handshake, Math.max(MIN_ANSWER_MS, leaseMs * share.handshake)),
    welcomeMs: Math.min(LONGEST.welcome, Math.max(MIN_ANSWER_MS, leaseMs * share.welcome)),
    longestPauseMs: Math.min(LONGEST.pause, leaseMs * share.pause),
    spreadMs: Math.min(LONGEST.spread, leaseMs * SPREAD_SHARE, spareMs),
  };
}

/** The pause after the given number of rounds in which no server accepted the worker. `random` is from 0 to 1. */
export function pauseAfter(rounds: number, longestPauseMs: number, random: number): number {
  const limitMs = Math.min(longestPauseMs, FIRST_PAUSE_MS * 2 ** Math.max(0, rounds - 1));
  return Math.round(limitMs * (0.5 + random / 2));
}
