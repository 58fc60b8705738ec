/** What the HTTP API asks of the job engine; the composition root (server.ts) puts it together. */
import type { JobState, Pause } from '@drover/protocol';
import type { PausedScope } from './dispatch/pauses.js';
import type { JobToInsert } from './new-jobs/job-to-insert.js';

export type HealthCheck = { check: string; status: 'okay' | 'error'; message?: string };

export type Engine = {
  /**
   * Durable when it resolves; gives the places in the list of those that existed already. Throws DroverError: overloaded,
   * shutting_down, database_unavailable.
   */
  enqueue(jobs: readonly JobToInsert[]): Promise<ReadonlySet<number>>;
  cancel(id: string): Promise<'cancelled' | 'requested' | 'not_found' | { wrongState: JobState }>;
  retry(id: string): Promise<'done' | 'not_found' | { wrongState: JobState }>;
  /** Resolves when the job has finished, the time is over or the signal aborts. */
  waitForFinish(id: string, ms: number, signal: AbortSignal): Promise<void>;
  /** Ends an unknown job as failed. */
  fail(id: string, reason: string): Promise<'done' | 'not_found' | { wrongState: JobState }>;
  /** Nobody starts jobs of this scope any more once it resolves, but for what other servers have just granted. */
  pause(scope: PausedScope, name: string, by: string, note: string | undefined): Promise<Pause>;
  /** Gives whether it was paused. */
  resume(scope: PausedScope, name: string): Promise<boolean>;
  /** Undefined if there is no such worker. */
  pauseWorker(sessionId: string, by: string, note: string | undefined): Promise<Pause | undefined>;
  /** Gives whether there is such a worker. */
  resumeWorker(sessionId: string): Promise<boolean>;
  health(): HealthCheck[];
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
};
