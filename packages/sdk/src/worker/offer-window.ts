/**
 * How many assignments this connection may deliver in total. The number only grows, because the server may already
 * have sent jobs up to it. Offers are few: under load the window moves in steps of a quarter of what the worker
 * holds; a single place is offered alone only if a slot would otherwise stay empty.
 */
import { LIMITS } from '@drover/protocol';

export type Load = {
  slots: number;
  prefetch: number;
  /** Waiting and running. */
  held: number;
  /** Finished, but not yet acknowledged by the server. */
  unacknowledged: number;
};

/**
 * Outcomes in flight that take no room: about 50 ms of commits at the highest rate. Without a limit, a worker would
 * run far ahead of a slow database, and all that work would run again if it died.
 */
export const MAX_UNACKNOWLEDGED = 2 * LIMITS.prefetch;

/** Smallest step under load, as a share of slots and prefetch together. */
const STEP = 1 / 4;

export class OfferWindow {
  #window = 0;
  #received = 0;

  /** Begins a connection. Returns the window for `hello`. */
  open(load: Load): number {
    this.begin(roomOf(load));
    return this.#window;
  }

  /** Begins a connection with the window that its `hello` actually had. */
  begin(window: number): void {
    this.#received = 0;
    this.#window = window;
  }

  received(count: number): void {
    this.#received += count;
  }

  /** The new window, if it is worth a frame. */
  raise(load: Load): number | undefined {
    const underWay = Math.max(0, this.#window - this.#received);
    const growth = roomOf(load) - underWay;
    if (growth <= 0) return undefined;
    const isSlotUncovered = load.held + underWay < load.slots;
    if (!isSlotUncovered && growth < (load.slots + load.prefetch) * STEP) return undefined;
    this.#window = this.#received + underWay + growth;
    return this.#window;
  }
}

function roomOf({ slots, prefetch, held, unacknowledged }: Load): number {
  return Math.max(0, slots + prefetch - held - Math.max(0, unacknowledged - MAX_UNACKNOWLEDGED));
}
