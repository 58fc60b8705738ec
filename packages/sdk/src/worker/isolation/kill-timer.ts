/** Kills a process whose handler continues too long after it was told to stop. */
import { MAX_TIMER_MS } from '@drover/protocol/within';
import type { JobProcess } from './job-process.js';

export class KillTimer {
  readonly #process: JobProcess;
  readonly #now: () => number;
  #killAt = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(process: JobProcess, now: () => number) {
    this.#process = process;
    this.#now = now;
  }

  /** Later reasons to stop can only shorten the time. */
  within(graceMs: number): void {
    const killAt = this.#now() + graceMs;
    if (killAt >= this.#killAt) return;
    this.#killAt = killAt;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => this.#process.kill(`its handler did not stop within ${graceMs} ms of its abort signal`),
      Math.min(graceMs, MAX_TIMER_MS),
    );
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
