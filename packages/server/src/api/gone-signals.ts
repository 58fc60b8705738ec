/** Signals for requests that wait: each aborts when its client has disconnected or the server stops. */
import type { ServerResponse } from 'node:http';

export type GoneSignals = {
  of(response: ServerResponse): AbortSignal;
  /** Aborts all signals, and every later one at once. */
  stop(): void;
};

export function createGoneSignals(): GoneSignals {
  const waiting = new Set<AbortController>();
  let isStopped = false;

  return {
    of(response) {
      const controller = new AbortController();
      if (isStopped) controller.abort();
      waiting.add(controller);
      response.once('close', () => {
        waiting.delete(controller);
        controller.abort();
      });
      return controller.signal;
    },
    stop() {
      isStopped = true;
      for (const controller of waiting) controller.abort();
    },
  };
}
