/** The use cases of jobs, queues and workers: what the API calls. Those of schedules are in schedules.ts. */
import type { Pause } from '@drover/protocol';
import type { Admission } from '../admission/admission.js';
import type { Runner } from '../db/database.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import { listPauses, type PausedScope, type Pauses } from '../dispatch/pauses.js';
import type { Waiters } from '../dispatch/waiters.js';
import type { Wakeups } from '../dispatch/wakeups.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import type { KnownTypes } from '../new-jobs/known-types.js';
import type { JobTypes } from '../sessions/job-types.js';
import { pauseWorker, resumeWorker, setPaused } from '../sessions/pause-worker.js';
import type { Sessions } from '../sessions/registry.js';
import { EXPIRY_WARNING_MS, type Metrics } from '../telemetry/metrics.js';
import { type ChangeJobDeps, cancelJob, failJob, type Refused, retryJob } from './change-job.js';

export type { PausedScope } from '../dispatch/pauses.js';

export type HealthCheck = { check: string; status: 'okay' | 'error'; message?: string };

export type Engine = {
  /**
   * Durable when it resolves. Returns the places of the jobs that existed already. Throws DroverError: overloaded,
   * shutting_down, database_unavailable.
   */
  enqueue(jobs: readonly JobToInsert[]): Promise<ReadonlySet<number>>;
  /** The job types that workers have registered, as this server knows them. */
  types(): Promise<KnownTypes>;
  /** Forgets the definition of a type that no live worker offers. */
  forgetType(type: string): Promise<'forgotten' | 'unknown' | 'in_use'>;
  cancel(id: string): Promise<'cancelled' | 'requested' | Refused>;
  retry(id: string): Promise<'done' | Refused>;
  /** Resolves when the job has finished, the time is over or the signal aborts. */
  waitForFinish(id: string, ms: number, signal: AbortSignal): Promise<void>;
  /** Ends an unknown job as failed. */
  fail(id: string, reason: string): Promise<'done' | Refused>;
  /** Everything that is paused. */
  pauses(): Promise<Pause[]>;
  /** Once it resolves no job of this scope starts, except those that other servers have just granted. */
  pause(scope: PausedScope, name: string, by: string, note: string | undefined): Promise<Pause>;
  /** Returns whether it was paused. */
  resume(scope: PausedScope, name: string): Promise<boolean>;
  /** Undefined if there is no such worker. */
  pauseWorker(sessionId: string, by: string, note: string | undefined): Promise<Pause | undefined>;
  /** Returns whether there is such a worker. */
  resumeWorker(sessionId: string): Promise<boolean>;
  health(): HealthCheck[];
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
};

type EngineDeps = ChangeJobDeps & {
  db: { control: Runner; reads: Runner };
  admission: Pick<Admission, 'enqueue' | 'pending'>;
  waiters: Pick<Waiters, 'wait'>;
  pauses: Pauses;
  types: Pick<JobTypes, 'known' | 'forget'>;
  sessions: Sessions;
  dispatcher: Pick<Dispatcher, 'wake'>;
  wakeups: Pick<Wakeups, 'tellOthers'>;
  metrics: Metrics;
  beatMs: number;
  /** Milliseconds since the last beat of this server reached the database. */
  sinceBeatMs(): number | undefined;
  /** Undefined: the server has no TLS. */
  certificateExpiresAt: (() => Date | undefined) | undefined;
  nowMs?: () => number;
};

/** Beats that may be missing before the health check fails. */
const MISSED_BEATS = 3;

export function createEngine(deps: EngineDeps): Engine {
  const { db, admission, pauses, sessions, dispatcher, nowMs = Date.now } = deps;

  async function pausesChanged(): Promise<void> {
    await pauses.refresh(dispatcher);
    deps.wakeups.tellOthers('pause');
  }

  function certificateLeftMs(): number | undefined {
    const expiresAt = deps.certificateExpiresAt?.();
    return expiresAt && expiresAt.getTime() - nowMs();
  }

  return {
    enqueue: admission.enqueue,
    types: deps.types.known,
    forgetType: deps.types.forget,
    waitForFinish: deps.waiters.wait,
    cancel: (id) => cancelJob(deps, id),
    retry: (id) => retryJob(deps, id),
    fail: (id, reason) => failJob(deps, id, reason),

    pauses: () => listPauses(db.reads),
    async pause(scope, name, by, note) {
      const paused = await pauses.pause(scope, name, by, note);
      await pausesChanged();
      return paused;
    },
    async resume(scope, name) {
      const resumed = await pauses.resume(scope, name);
      await pausesChanged();
      return resumed;
    },

    // the server of another worker learns of it with the next renewal of the lease
    async pauseWorker(sessionId, by, note) {
      const paused = await pauseWorker(db.control, sessionId, by, note);
      const session = sessions.get(sessionId);
      if (paused && session) setPaused(session, true);
      return paused;
    },
    async resumeWorker(sessionId) {
      const found = await resumeWorker(db.control, sessionId);
      const session = sessions.get(sessionId);
      if (found && session) setPaused(session, false);
      if (found) dispatcher.wake();
      return found;
    },

    health() {
      const sinceBeatMs = deps.sinceBeatMs();
      const isLate = sinceBeatMs === undefined || sinceBeatMs > MISSED_BEATS * deps.beatMs;
      const message = 'no beat of this server has reached the database lately';
      const beat: HealthCheck = isLate
        ? { check: 'beat', status: 'error', message }
        : { check: 'beat', status: 'okay' };
      return deps.certificateExpiresAt === undefined ? [beat] : [beat, certificateHealth(certificateLeftMs())];
    },
    metrics: () =>
      deps.metrics.text({
        workers: sessions.size,
        heldJobs: heldJobs(sessions),
        pendingJobs: admission.pending,
        sinceBeatMs: deps.sinceBeatMs(),
        certificateLeftMs: certificateLeftMs(),
      }),
  };
}

function certificateHealth(leftMs: number | undefined): HealthCheck {
  const check = 'certificate';
  if (leftMs === undefined || leftMs > EXPIRY_WARNING_MS) return { check, status: 'okay' };
  const days = Math.floor(leftMs / 86_400_000);
  const message = days < 0 ? 'the certificate has expired' : `the certificate expires in ${days} days`;
  return { check, status: 'error', message };
}

function heldJobs(sessions: Sessions): number {
  let total = 0;
  for (const { grants } of sessions.values()) total += grants.size;
  return total;
}
