/**
 * Sends beats while a connection is open, and detects a silent server.
 *
 * Silence is counted in timer ticks, not in time: when the event loop was blocked, ticks do not pile up, so frames
 * that arrived meanwhile are read before the connection is considered silent.
 */

/** Half beats without a frame from the server after which the connection counts as dead. */
const SILENT_TICKS = 5;
const TICKS_PER_BEAT = 2;

export type HeartbeatEvents = {
  beat: (beat: number) => void;
  silent: () => void;
};

export class Heartbeat {
  readonly #events: HeartbeatEvents;
  #timer: NodeJS.Timeout | undefined;
  #ticks = 0;
  #silentTicks = 0;
  #beat = 0;

  constructor(events: HeartbeatEvents) {
    this.#events = events;
  }

  start(beatMs: number): void {
    this.stop();
    this.#ticks = 0;
    this.#silentTicks = 0;
    this.#timer = setInterval(() => this.#tick(), Math.max(1, beatMs / TICKS_PER_BEAT));
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Call for any frame from the server. */
  heard(): void {
    this.#silentTicks = 0;
  }

  #tick(): void {
    if (++this.#silentTicks > SILENT_TICKS) {
      this.stop();
      this.#events.silent();
      return;
    }
    if (++this.#ticks % TICKS_PER_BEAT === 0) this.#events.beat(++this.#beat);
  }
}
