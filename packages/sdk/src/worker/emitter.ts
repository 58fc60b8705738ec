/** Calls the application's listeners. A listener that throws or rejects is logged and harms nothing. */
import type { Logger } from '../logger.js';

export class Emitter<Events extends Record<keyof Events, readonly unknown[]>> {
  readonly #logger: Logger;
  readonly #listeners = new Map<PropertyKey, Set<(...values: never) => unknown>>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Returns the function that removes the listener. */
  on<Event extends keyof Events>(event: Event, listener: (...values: Events[Event]) => unknown): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    // A function of its own, so that the same listener can be added twice and removed once.
    const added = (...values: Events[Event]) => listener(...values);
    listeners.add(added);
    return () => void listeners.delete(added);
  }

  hasListeners(event: keyof Events): boolean {
    return (this.#listeners.get(event)?.size ?? 0) > 0;
  }

  emit<Event extends keyof Events>(event: Event, ...values: Events[Event]): void {
    for (const listener of this.#listeners.get(event) ?? []) {
      const failed = (error: unknown) => {
        const fields = { event: 'listener.failed', listensTo: String(event), err: error };
        this.#logger.error(fields, 'listener of a worker event failed');
      };
      try {
        // Sound: `on` adds listeners under the event whose values they take.
        const returned = (listener as (...values: Events[Event]) => unknown)(...values);
        if (returned instanceof Promise) returned.catch(failed);
      } catch (error) {
        failed(error);
      }
    }
  }
}
