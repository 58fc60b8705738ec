/** Sends the latest progress of all jobs together, a few times per second at most. */
import type { Attempt } from './attempt.js';
import type { Link } from './link/link.js';

const SEND_EVERY_MS = 100;

export class ProgressSender {
  readonly #link: Link;
  readonly #latest = new Map<Attempt, string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(link: Link) {
    this.#link = link;
  }

  report(attempt: Attempt, value: string): void {
    this.#latest.set(attempt, value);
    this.#timer ??= setTimeout(() => this.#send(), SEND_EVERY_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#latest.clear();
  }

  /** Jobs that ended meanwhile are skipped. Progress that cannot be sent is dropped. */
  #send(): void {
    this.#timer = undefined;
    const items: { id: string; fence: number; value: string }[] = [];
    for (const [{ assignment, isSettled }, value] of this.#latest) {
      if (!isSettled) items.push({ id: assignment.id, fence: assignment.fence, value });
    }
    this.#latest.clear();
    if (items.length > 0 && this.#link.isReady) this.#link.send(JSON.stringify({ kind: 'progress', items }));
  }
}
