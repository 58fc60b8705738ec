/**
 * Checks the lease clock often and reports each phase to the main thread. When the lease is over while handlers still
 * run whose jobs others may now start, it kills those in their own processes, and ends this process because of those
 * that run in it.
 *
 * It runs in the link thread, so a handler that blocks the main thread cannot stop it. After a pause of the whole
 * process the timer is due, and timers run before the network: the lease is checked before anything is sent.
 */
import { write } from 'node:fs';
import { type LeaseClock, type LeasePhase, type Reading, readClocks, readQuickClocks } from './lease-clock.js';
import type { SharedState } from './shared-state.js';

/** Checks per lease, within the limits below and above: often enough to detect a clock that has jumped. */
const LOOKS_PER_LEASE = 60;
const SHORTEST_LOOK_MS = 10;
const LONGEST_LOOK_MS = 500;
/** Time for the last message to be written; nothing may delay the end of the process. */
const LAST_WORDS_MS = 20;
const STDERR = 2;

export type LeaseWatchOptions = {
  clock: LeaseClock;
  shared: SharedState;
  exitsOnLeaseLost: boolean;
  stopsItself: boolean;
  /** Kills the processes of isolated handlers whose jobs others may start. May be called repeatedly. */
  killIsolated: () => void;
  changed: (phase: LeasePhase) => void;
};

export class LeaseWatch {
  readonly #options: LeaseWatchOptions;
  #phase: LeasePhase = 'doubtful';
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LeaseWatchOptions) {
    this.#options = options;
  }

  /** Call when the lease was confirmed. */
  renewed(): void {
    const { clock, shared } = this.#options;
    if (clock.lease !== undefined) shared.setLease(clock.lease.since, clock.lease.leaseMs);
    this.look();
  }

  /**
   * Call before any action: it is cheap and detects a pause of the process at once. It skips one clock, so it may see
   * the lease as too young; therefore it only moves the phase forward.
   */
  lookQuickly(): void {
    const now = readQuickClocks();
    const { phase } = this.#phaseAt(now);
    if (AGE[phase] > AGE[this.#phase]) this.#see(now);
  }

  look(): void {
    clearTimeout(this.#timer);
    const untilNextMs = this.#see(readClocks());
    const leaseMs = this.#options.clock.lease?.leaseMs;
    if (leaseMs === undefined) return;
    const everyMs = Math.min(LONGEST_LOOK_MS, Math.max(SHORTEST_LOOK_MS, leaseMs / LOOKS_PER_LEASE));
    this.#timer = setTimeout(() => this.look(), Math.max(1, Math.min(everyMs, untilNextMs)));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** A worker that does not stop itself never gets past `doubtful`: it starts nothing and stops nothing. */
  #phaseAt(now: Reading): { phase: LeasePhase; untilNextMs: number } {
    const look = this.#options.clock.look(now);
    return !this.#options.stopsItself && AGE[look.phase] > AGE.doubtful ? { ...look, phase: 'doubtful' } : look;
  }

  #see(now: Reading): number {
    const { shared, changed, exitsOnLeaseLost, killIsolated } = this.#options;
    const { phase, untilNextMs } = this.#phaseAt(now);
    shared.startUntilMs = phase === 'trusted' ? now.monotonicMs + untilNextMs : 0;
    if (phase !== this.#phase) {
      this.#phase = phase;
      changed(phase);
    }
    if (phase !== 'over') return untilNextMs;
    killIsolated();
    if (exitsOnLeaseLost && shared.exposed > 0) {
      endProcess(`the lease expired but handlers still run (${shared.exposed}); other workers may start their jobs`);
    }
    return untilNextMs;
  }
}

const AGE: Readonly<Record<LeasePhase, number>> = { trusted: 0, doubtful: 1, stopping: 2, over: 3 };

/** Ends the whole process, from any thread, whatever its other threads do. */
export function endProcess(reason: string): void {
  const kill = () => process.kill(process.pid, 'SIGKILL');
  const line = { time: new Date().toISOString(), level: 'error', event: 'worker.exited', pid: process.pid, reason };
  setTimeout(kill, LAST_WORDS_MS);
  // Not the synchronous write: a blocked reader of stderr would keep the process alive.
  write(STDERR, `${JSON.stringify({ ...line, message: 'worker ends its process' })}\n`, kill);
}
