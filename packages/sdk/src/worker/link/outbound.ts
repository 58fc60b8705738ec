/**
 * Frames on their way from the main thread to the socket. The shared state counts their length down when they were
 * sent or dropped, so the main thread knows how much is in flight and holds the rest back.
 */
import type { Connection } from './connection.js';
import type { SharedState } from './shared-state.js';

/** Characters in flight at which the main thread stops sending, and at which it is told to resume. */
export const MAX_UNDER_WAY = 4 * 1024 * 1024;
const DRAINED_BELOW = MAX_UNDER_WAY / 2;

type Stream = { number: number; underWay: number; isOpen: boolean };

export class Outbound {
  readonly #connection: Connection;
  readonly #shared: SharedState;
  readonly #drained: () => void;
  #stream: Stream = { number: 0, underWay: 0, isOpen: false };

  constructor(connection: Connection, shared: SharedState, drained: () => void) {
    this.#connection = connection;
    this.#shared = shared;
    this.#drained = drained;
  }

  open(number: number): void {
    this.#stream = { number, underWay: 0, isOpen: true };
  }

  close(): void {
    const stream = this.#stream;
    stream.isOpen = false;
    this.#left(stream.underWay);
  }

  send(number: number, frames: readonly string[]): void {
    const stream = this.#stream;
    for (const frame of frames) {
      if (!stream.isOpen || stream.number !== number) {
        this.#left(frame.length);
        continue;
      }
      stream.underWay += frame.length;
      this.#connection.send(frame, () => {
        // Frames in flight were counted down when the stream closed.
        if (!stream.isOpen) return;
        stream.underWay -= frame.length;
        this.#left(frame.length);
      });
    }
  }

  #left(length: number): void {
    this.#shared.addWritten(length);
    if (!this.#shared.wantsDrained || this.#stream.underWay >= DRAINED_BELOW) return;
    this.#shared.wantsDrained = false;
    this.#drained();
  }
}
