/**
 * How long the link waits for one server, between two rounds over all of them, and before it turns to another server
 * when the one it had is gone. Pure.
 *
 * Before the first lease there is nothing to lose, and servers that start or are overloaded get their time. Then
 * all waits are shares of the lease. While it is held, the shares are small: silence of a server is noticed when
 * the lease is about half over, and in the rest the worker must get past several servers that do not answer
 * before it has to stop its jobs. When it is over, they are larger, but still such that the worker comes back
 * within a lease's time after an outage of the database: so long everybody is waited for.
 *
 * The workers of a server that dies all learn of it in the same moment, and a thousand of them would be at the others'
 * door at once. Each waits a part of `spreadMs` first. That comes out of the first half of the lease alone: the second
 * is for servers that do not answer.
 */
import { phaseStarts } from './lease-clock.js';

const LONGEST = { handshake: 10_000, welcome: 20_000, pause: 5000, spread: 2000 };
const SHARES = {
  held: { handshake: 0.1, welcome: 0.2, pause: 0.05 },
  over: { handshake: 0.5, welcome: 0.5, pause: 0.1 },
};
/** A second of the default lease: a server takes in some hundred workers in that time. */
const SPREAD_SHARE = 1 / 30;
/** Of the lease, what is left for servers that do not answer. */
const SPARE_SHARE = 0.5;
/** A sound server on a busy machine needs this much; waiting less would pass over all of them. */
const MIN_ANSWER_MS = 250;
const FIRST_PAUSE_MS = 100;

export type Patience = {
  /** For the TCP and WebSocket handshakes. */
  handshakeMs: number;
  /** From the start of the handshake to the answer to `hello`. */
  welcomeMs: number;
  longestPauseMs: number;
  /** Workers that lose a connection together come to other servers spread over this time. */
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

/** After the given number of rounds over all servers in which none took the worker. `random` is from 0 to 1. */
export function pauseAfter(rounds: number, longestPauseMs: number, random: number): number {
  const limitMs = Math.min(longestPauseMs, FIRST_PAUSE_MS * 2 ** Math.max(0, rounds - 1));
  return Math.round(limitMs * (0.5 + random / 2));
}
