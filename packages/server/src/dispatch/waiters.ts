/**
 * Callers that wait for a job to finish. What this server finishes is told at once; for the rest, one
 * statement every POLL_MS looks at all ids that are waited for. A job that has left the hot table is done.
 */
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

export type Waiters = {
  /** Resolves when the job has finished, the time is over or the signal aborts. */
  wait(id: string, ms: number, signal: AbortSignal): Promise<void>;
  finished(ids: readonly string[]): void;
  stop(): void;
};

const POLL_MS = 200;
const stillThere = sql('still_unfinished')`select id::text as id from drover.job where id = any($1::uuid[])`;

export function createWaiters(deps: { db: Runner; logger: Logger }): Waiters {
  const waiting = new Map<string, Set<() => void>>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function look(): Promise<void> {
    const ids = [...waiting.keys()];
    const rows = await deps.db.run<{ id: string }>(stillThere, [ids]);
    const there = new Set(rows.map((row) => row.id));
    finished(ids.filter((id) => !there.has(id)));
  }

  function schedule(): void {
    if (timer || waiting.size === 0 || stopped) return;
    timer = setTimeout(() => {
      look()
        .catch((error: Error) => deps.logger.debug({ err: error }, 'looking for finished jobs failed'))
        .finally(() => {
          timer = undefined;
          schedule();
        });
    }, POLL_MS);
  }

  function finished(ids: readonly string[]): void {
    if (waiting.size === 0) return;
    for (const id of ids) {
      const callers = waiting.get(id);
      if (callers) for (const resolve of [...callers]) resolve();
    }
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
    finished,
    stop() {
      stopped = true;
      clearTimeout(timer);
      for (const callers of [...waiting.values()]) for (const resolve of [...callers]) resolve();
    },
  };
}
