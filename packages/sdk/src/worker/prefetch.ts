/**
 * How many assignments a worker holds beyond its slots. Enough to hide one round trip to the server: as many jobs as
 * its slots finish in that time. Slow jobs gain nothing and would wait here while another worker is free, so for them
 * it is zero.
 */
import { LIMITS } from '@drover/protocol';

/** A round trip with its commit, measured from a busy worker. */
const ROUND_TRIP_MS = 25;
/** Jobs that take this long on average are not prefetched. */
const SLOW_MS = 75;
/** Weight of the newest duration in the average: about the last twenty jobs count. */
const NEWEST_WEIGHT = 0.05;
/** Keeps the division finite; far below what any handler takes. */
const SHORTEST_MS = 0.001;

export type Prefetch = {
  /** Assignments to hold beyond the slots. */
  readonly size: number;
  /** Whether the worker may hand back what it holds when nothing starts. */
  readonly isAdaptive: boolean;
  /** Records the duration of a job. */
  observe(runMs: number): void;
  /** Call when prefetched jobs did not start in time: the average was wrong. */
  stalled(): void;
};

export function fixedPrefetch(size: number): Prefetch {
  return { size, isAdaptive: false, observe() {}, stalled() {} };
}

/** Starts at zero and at most doubles with each job, so that a few fast jobs do not fill the worker. */
export class AdaptivePrefetch implements Prefetch {
  readonly isAdaptive = true;
  readonly #slots: number;
  #averageMs: number | undefined;
  #size = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  get size(): number {
    return this.#size;
  }

  observe(runMs: number): void {
    const average = this.#averageMs;
    this.#averageMs = average === undefined ? runMs : average + (runMs - average) * NEWEST_WEIGHT;
    this.#size = Math.min(this.#wanted(this.#averageMs), Math.max(1, this.#size * 2));
  }

  stalled(): void {
    this.#averageMs = SLOW_MS;
    this.#size = 0;
  }

  #wanted(averageMs: number): number {
    if (averageMs >= SLOW_MS) return 0;
    const jobsPerRoundTrip = (this.#slots * ROUND_TRIP_MS) / Math.max(SHORTEST_MS, averageMs);
    return Math.min(LIMITS.prefetch, Math.ceil(jobsPerRoundTrip));
  }
}
