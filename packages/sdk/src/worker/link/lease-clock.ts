/**
 * The age of the lease, and what it means. Pure: the caller provides the clock readings.
 *
 * Invariant: the age counts from *before* the beat or hello that a server has answered was sent, on the clock that
 * has advanced furthest. So despite network delays, a suspended machine or a changed clock, the worker considers its
 * lease over no later than the database does. A clock can only make it stop sooner.
 *
 *   sent ───────────── trusted ───── doubtful ───── stopping ── over │ lease
 *   0                             three quarters of it    └ margin ───┘
 */
import { uptime } from 'node:os';

/**
 * `trusted`: work. `doubtful`: start nothing. `stopping`: stop jobs that others may start next. `over`: others may
 * have them.
 */
export type LeasePhase = 'trusted' | 'doubtful' | 'stopping' | 'over';

/**
 * A lease is at least three beats. Each beat is answered within one beat, so an undisturbed lease gets at most two
 * beats old. Past this share of the lease, an answer is missing.
 */
const DOUBTFUL_SHARE = 0.75;
/** Share of the lease, before its end, in which handlers must stop. Never less than the minimum. */
const MARGIN_SHARE = 0.1;
const MIN_MARGIN_MS = 100;
/** Share of the margin that is left when the handlers' time is over: enough to end a process. */
const KILL_SHARE = 0.25;
/** On some platforms the boot clock counts whole seconds. */
const BOOT_RESOLUTION_MS = 1000;
/** Unanswered beats that are remembered. A later answer to an older one renews nothing. */
const MAX_UNANSWERED = 100;

const NANOSECONDS_PER_MS = 1e6;
const MS_PER_SECOND = 1000;

/** Three clocks, read together. */
export type Reading = {
  /** Does not advance while the machine is suspended. */
  monotonicMs: number;
  /** Follows changes of the machine's time. */
  wallMs: number;
  /** Advances while the machine is suspended. */
  bootMs: number;
};

export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / NANOSECONDS_PER_MS;
}

export function readClocks(): Reading {
  return { monotonicMs: monotonicMs(), wallMs: Date.now(), bootMs: uptime() * MS_PER_SECOND };
}

/** Without the boot clock, whose reading costs a system call on a file. For checks between two full readings. */
export function readQuickClocks(): Reading {
  return { monotonicMs: monotonicMs(), wallMs: Date.now(), bootMs: Number.NEGATIVE_INFINITY };
}

/** The largest elapsed time of the three clocks. A clock that was set back is ignored. */
export function elapsedMs(from: Reading, to: Reading): number {
  return Math.max(
    to.monotonicMs - from.monotonicMs,
    to.wallMs - from.wallMs,
    to.bootMs - from.bootMs - BOOT_RESOLUTION_MS,
  );
}

/** The ages at which the phases begin. */
export function phaseStarts(leaseMs: number): { doubtfulMs: number; stoppingMs: number; overMs: number } {
  const marginMs = Math.max(leaseMs * MARGIN_SHARE, MIN_MARGIN_MS);
  const stoppingMs = Math.max(0, leaseMs - marginMs);
  const overMs = Math.max(0, leaseMs - marginMs * KILL_SHARE);
  return { doubtfulMs: Math.min(leaseMs * DOUBTFUL_SHARE, stoppingMs), stoppingMs, overMs };
}

export class LeaseClock {
  #since: Reading | undefined;
  #leaseMs = 0;
  readonly #unanswered = new Map<number, Reading>();

  get lease(): { since: Reading; leaseMs: number } | undefined {
    return this.#since === undefined ? undefined : { since: this.#since, leaseMs: this.#leaseMs };
  }

  /** Call when a server has accepted the worker; a replacement link thread calls it with the lease of the old one. */
  begin(since: Reading, leaseMs: number): void {
    this.#since = since;
    this.#leaseMs = leaseMs;
    this.#unanswered.clear();
  }

  /** Call before the beat is sent. */
  sending(beat: number, at: Reading): void {
    this.#unanswered.set(beat, at);
    if (this.#unanswered.size <= MAX_UNANSWERED) return;
    const [oldest] = this.#unanswered.keys();
    this.#unanswered.delete(oldest as number);
  }

  answered(beat: number): void {
    const at = this.#unanswered.get(beat);
    if (at === undefined) return;
    this.#since = at;
    for (const earlier of this.#unanswered.keys()) if (earlier <= beat) this.#unanswered.delete(earlier);
  }

  /** The phase, and its longest remaining duration. Before the first welcome the phase is `doubtful`. */
  look(now: Reading): { phase: LeasePhase; untilNextMs: number } {
    if (this.#since === undefined) return { phase: 'doubtful', untilNextMs: Number.POSITIVE_INFINITY };
    const ageMs = elapsedMs(this.#since, now);
    const { doubtfulMs, stoppingMs, overMs } = phaseStarts(this.#leaseMs);
    if (ageMs < doubtfulMs) return { phase: 'trusted', untilNextMs: doubtfulMs - ageMs };
    if (ageMs < stoppingMs) return { phase: 'doubtful', untilNextMs: stoppingMs - ageMs };
    if (ageMs < overMs) return { phase: 'stopping', untilNextMs: overMs - ageMs };
    return { phase: 'over', untilNextMs: Number.POSITIVE_INFINITY };
  }
}
