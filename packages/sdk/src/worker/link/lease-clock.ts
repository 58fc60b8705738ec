/**
 * How old the lease is, and what that means. Pure: the readings are brought by the caller.
 *
 * What always holds: the age counts from *before* the beat or hello was sent that a server has answered, on
 * the clock that has gone furthest. So whatever the network, a suspended machine or a changed clock does, the
 * worker believes that its lease is over no later than the database does. A clock can only make it stop sooner.
 *
 *   sent ───────────── trusted ───── doubtful ───── stopping ── over │ lease
 *   0                             three quarters of it    └ margin ───┘
 */
import { uptime } from 'node:os';

/** `trusted`: work. `doubtful`: start nothing. `stopping`: stop what others may start next. `over`: it is theirs. */
export type LeasePhase = 'trusted' | 'doubtful' | 'stopping' | 'over';

/**
 * A lease is at least three beats. A beat is answered within one beat, so an undisturbed lease gets up to two
 * beats old; past this share of it an answer is missing.
 */
const DOUBTFUL_SHARE = 0.75;
/** Before the end of the lease, for handlers to stop: this share of it, and never less than the minimum. */
const MARGIN_SHARE = 0.1;
const MIN_MARGIN_MS = 100;
/** Of the margin, what is left when handlers have had their time: enough to end a process. */
const KILL_SHARE = 0.25;
/** On some platforms the boot clock counts whole seconds. */
const BOOT_RESOLUTION_MS = 1000;
/** Beats without an answer that are remembered; a later answer to an older one renews nothing. */
const MAX_UNANSWERED = 100;

const NANOSECONDS_PER_MS = 1e6;
const MS_PER_SECOND = 1000;

/** Three clocks at one moment. */
export type Reading = {
  /** Stands still while the machine is suspended. */
  monotonicMs: number;
  /** Jumps with the machine's time. */
  wallMs: number;
  /** Goes on while the machine is suspended. */
  bootMs: number;
};

export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / NANOSECONDS_PER_MS;
}

export function readClocks(): Reading {
  return { monotonicMs: monotonicMs(), wallMs: Date.now(), bootMs: uptime() * MS_PER_SECOND };
}

/** Without the boot clock, which costs a system call on a file: for checks between two full ones. */
export function readQuickClocks(): Reading {
  return { monotonicMs: monotonicMs(), wallMs: Date.now(), bootMs: Number.NEGATIVE_INFINITY };
}

/** The most that any clock says; one that was set back says nothing. */
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

  /** A server has taken the worker in, or an earlier link thread had been told so. */
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

  /** The phase, and how long it lasts at the most. Before the first welcome there is nothing to trust or to lose. */
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
