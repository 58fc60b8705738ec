/**
 * The time in which a worker has no server: how long it is, and why each server did not take it. Pure.
 *
 * The first report comes after a few seconds, because a restart of the servers takes less; then one a minute.
 */
const FIRST_REPORT_MS = 5000;
const NEXT_REPORT_MS = 60_000;

export type SearchReport = { forMs: number; reasons: Record<string, string> };

export class Search {
  readonly #reasons = new Map<string, string>();
  #since: number;
  #reportAt: number;

  constructor(now: number) {
    this.#since = now;
    this.#reportAt = now + FIRST_REPORT_MS;
  }

  /** The worker has lost its server now. */
  restart(now: number): void {
    this.#since = now;
    this.#reportAt = now + FIRST_REPORT_MS;
    this.#reasons.clear();
  }

  /** A server did not take the worker. Returns what is to be reported now, if anything. */
  failed(url: string, reason: string, now: number): SearchReport | undefined {
    this.#reasons.set(url, reason);
    if (now < this.#reportAt) return undefined;
    this.#reportAt = now + NEXT_REPORT_MS;
    return { forMs: Math.round(now - this.#since), reasons: Object.fromEntries(this.#reasons) };
  }
}
