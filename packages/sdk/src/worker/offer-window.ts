/**
 * How many assignments this connection may bring in all. The number only grows: the server may have sent
 * jobs up to it already. Offers are few: under load the window moves in steps of a quarter of what the
 * worker holds, and a single place is offered by itself only if a slot would stay empty for want of it.
 */
import { LIMITS } from '@drover/protocol';

export type Load = {
  slots: number;
  prefetch: number;
  /** Waiting and running. */
  held: number;
  /** Finished, but not yet confirmed by the server. */
  unacknowledged: number;
};

/**
 * Outcomes that may be under way without taking room: some 50 ms of commits at the highest rate. Above it a
 * worker would run ahead of a slow database, and everything it ran ahead would run again if it died.
 */
export const MAX_UNACKNOWLEDGED = 2 * LIMITS.prefetch;

/** Smallest step under load, as a share of slots and prefetch together. */
const STEP = 1 / 4;

export class OfferWindow {
  #window = 0;
  #received = 0;

  /** Begins a connection; answers the window for `hello`. */
  open(load: Load): number {
    this.begin(roomOf(load));
    return this.#window;
  }

  /** Begins a connection with the window that its `hello` really had. */
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
