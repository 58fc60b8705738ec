/**
 * Callers that wait for a job to finish. They are notified at once of what this server finishes; for the rest, one
 * statement every POLL_MS looks up all awaited ids. A job that has left the hot table is finished.
 */
import { isFinished } from '@drover/protocol';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Publish } from '../lifecycle/publish.js';

export type Waiters = {
  /** Resolves when the job has finished, the time is over or the signal aborts. */
  wait(id: string, ms: number, signal: AbortSignal): Promise<void>;
  hear: Publish;
  stop(): void;
};

const POLL_MS = 200;
const stillThere = sql('still_unfinished')`select id::text as id from drover.job where id = any($1::uuid[])`;

export function createWaiters(deps: { db: Runner; logger: Logger }): Waiters {
  const waiting = new Map<string, Set<() => void>>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function lookUp(): Promise<void> {
    const ids = [...waiting.keys()];
    const rows = await deps.db.run<{ id: string }>(stillThere, [ids]);
    const there = new Set(rows.map((row) => row.id));
    for (const id of ids) if (!there.has(id)) finished(id);
  }

  function schedule(): void {
    if (timer || waiting.size === 0 || stopped) return;
    timer = setTimeout(() => {
      lookUp()
        .catch((error: Error) =>
          deps.logger.debug(
            { event: 'waiters.failed', err: error },
            'finished jobs could not be looked up, trying again',
          ),
        )
        .finally(() => {
          timer = undefined;
          schedule();
        });
    }, POLL_MS);
  }

  function finished(id: string): void {
    const callers = waiting.get(id);
    if (callers) for (const resolve of [...callers]) resolve();
  }

  return {
    wait(id, ms, signal) {
      if (stopped || signal.aborted || ms <= 0) return Promise.resolve();
      return new Promise((resolve) => {
        const done = () => {
          clearTimeout(limit);
          signal.removeEventListener('abort', done);
          const callers = waiting.get(id);
          callers?.delete(done);
          if (callers?.size === 0) waiting.delete(id);
          resolve();
        };
        const limit = setTimeout(done, ms);
        signal.addEventListener('abort', done);
        const callers = waiting.get(id) ?? new Set();
        waiting.set(id, callers.add(done));
        schedule();
      });
    },
    hear(changes) {
      if (waiting.size === 0) return;
      for (const { id, to } of changes) if (isFinished(to)) finished(id);
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      for (const callers of [...waiting.values()]) for (const resolve of [...callers]) resolve();
    },
  };
}
