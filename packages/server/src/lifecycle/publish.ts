/**
 * The one place where changes become known on this server. The caller of a verb publishes the changes after the commit; waiting
 * callers, metrics and wake-ups listen. Correctness must not depend on it: a server may die between commit and publish, and
 * other servers learn of a change only by hints and polling.
 */
import type { Logger } from 'pino';
import type { Change } from './change.js';

export type Publish = (changes: readonly Change[]) => void;

export type Publisher = {
  /** Never throws: the changes are durable, even if a listener fails. */
  publish: Publish;
  /** Returns the function that removes the listener. */
  listen(listener: Publish): () => void;
};

export function createPublisher(logger: Logger): Publisher {
  const listeners = new Set<Publish>();
  return {
    publish(changes) {
      if (changes.length === 0) return;
      for (const listener of listeners) {
        try {
          listener(changes);
        } catch (error) {
          logger.error(
            { event: 'listener.failed', err: error, changes: changes.length },
            'a listener of job changes failed',
          );
        }
      }
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
