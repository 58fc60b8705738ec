/**
 * Detects that jobs wait here while nothing starts: fast jobs made the worker prefetch, then slow ones took all its
 * slots. Jobs that are handed back can start on another worker. One timer for the whole worker, and none while
 * nothing waits.
 */
const CHECK_EVERY_MS = 250;

export type Progress = { readonly waiting: number; readonly started: number };

export class StallWatch {
  readonly #slots: Progress;
  readonly #stalled: () => void;
  #timer: NodeJS.Timeout | undefined;
  #startedBefore = 0;

  constructor(slots: Progress, stalled: () => void) {
    this.#slots = slots;
    this.#stalled = stalled;
  }

  /** Call when jobs have arrived. */
  watch(): void {
    if (this.#timer !== undefined || this.#slots.waiting === 0) return;
    this.#startedBefore = this.#slots.started;
    this.#timer = setInterval(() => this.#check(), CHECK_EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #check(): void {
    const { waiting, started } = this.#slots;
    const hasMoved = started !== this.#startedBefore;
    this.#startedBefore = started;
    if (waiting > 0 && hasMoved) return;
    this.stop();
    if (waiting > 0) this.#stalled();
  }
}
