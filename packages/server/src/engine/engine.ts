/** The use cases of jobs, queues and workers: what the API calls. Those of schedules are in schedules.ts. */
import { DEFAULT_QUEUE, type Pause } from '@drover/protocol';
import { type AuditRow, audited, auditRow, digestOf } from '../access/audit.js';
import type { Caller } from '../access/principal.js';
import type { Admission } from '../admission/admission.js';
import type { Runner, TransactionRunner } from '../db/database.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import { listPauses, type PausedScope, type Pauses, pausePlace, resumePlace } from '../dispatch/pauses.js';
import type { Waiters } from '../dispatch/waiters.js';
import type { Wakeups } from '../dispatch/wakeups.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import type { KnownTypes } from '../new-jobs/known-types.js';
import type { Forgotten, JobTypes } from '../sessions/job-types.js';
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
  enqueue(jobs: readonly JobToInsert[], by: Caller): Promise<ReadonlySet<number>>;
  /** The job types that workers have registered, as this server knows them. */
  types(): Promise<KnownTypes>;
  /** Forgets the definition of a type that no live worker offers. */
  forgetType(type: string, by: Caller): Promise<Forgotten>;
  cancel(id: string, by: Caller): Promise<'cancelled' | 'requested' | Refused>;
  retry(id: string, by: Caller): Promise<'done' | Refused>;
  /** Resolves when the job has finished, the time is over or the signal aborts. */
  waitForFinish(id: string, ms: number, signal: AbortSignal): Promise<void>;
  /** Ends an unknown job as failed. */
  fail(id: string, reason: string, by: Caller): Promise<'done' | Refused>;
  /** Everything that is paused. */
  pauses(): Promise<Pause[]>;
  /** Once it resolves no job of this scope starts, except those that other servers have just granted. */
  pause(scope: PausedScope, name: string, by: Caller, note: string | undefined): Promise<Pause>;
  /** Returns whether it was paused. */
  resume(scope: PausedScope, name: string, by: Caller): Promise<boolean>;
  /** Undefined if there is no such worker. */
  pauseWorker(sessionId: string, by: Caller, note: string | undefined): Promise<Pause | undefined>;
  /** Returns whether there is such a worker. */
  resumeWorker(sessionId: string, by: Caller): Promise<boolean>;
  health(): HealthCheck[];
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
};

type EngineDeps = ChangeJobDeps & {
  db: { control: TransactionRunner; reads: Runner };
  admission: Pick<Admission, 'enqueue' | 'pending'>;
  waiters: Pick<Waiters, 'wait'>;
  pauses: Pauses;
  types: Pick<JobTypes, 'known' | 'forget'>;
  sessions: Sessions;
  dispatcher: Pick<Dispatcher, 'wake'>;
  wakeups: Pick<Wakeups, 'tellOthers'>;
  metrics: Metrics;
  beatMs: number;
  /** Whether each request that adds jobs has a row in the audit trail. */
  auditEnqueues: boolean;
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
    enqueue: (jobs, by) => admission.enqueue(jobs, deps.auditEnqueues ? enqueueRow(by, jobs) : undefined),
    types: deps.types.known,
    forgetType: (type, by) =>
      deps.types.forget(type, (forget) =>
        audited(db.control, by, async (tx, tell) => {
          const outcome = await forget(tx);
          if (outcome === 'forgotten') tell({ target: `type ${type}` });
          return outcome;
        }),
      ),
    waitForFinish: deps.waiters.wait,
    cancel: (id, by) => cancelJob(deps, id, by),
    retry: (id, by) => retryJob(deps, id, by),
    fail: (id, reason, by) => failJob(deps, id, reason, by),

    pauses: () => listPauses(db.reads),
    async pause(scope, name, by, note) {
      const paused = await audited(db.control, by, async (tx, tell) => {
        const pause = await pausePlace(tx, scope, name, by.principal.name, note);
        tell({ target: `${scope} ${name}`.trim(), after: pause });
        return pause;
      });
      await pausesChanged();
      return paused;
    },
    async resume(scope, name, by) {
      const resumed = await audited(db.control, by, async (tx, tell) => {
        const pause = await resumePlace(tx, scope, name);
        if (pause) tell({ target: `${scope} ${name}`.trim(), before: pause });
        return pause !== undefined;
      });
      await pausesChanged();
      return resumed;
    },

    // the server of another worker learns of it with the next renewal of the lease
    async pauseWorker(sessionId, by, note) {
      const paused = await audited(db.control, by, async (tx, tell) => {
        const pause = await pauseWorker(tx, sessionId, by.principal.name, note);
        if (pause) tell({ target: `worker ${sessionId}`, after: pause });
        return pause;
      });
      const session = sessions.get(sessionId);
      if (paused && session) setPaused(session, true);
      return paused;
    },
    async resumeWorker(sessionId, by) {
      const found = await audited(db.control, by, async (tx, tell) => {
        const resumed = await resumeWorker(tx, sessionId);
        if (resumed) tell({ target: `worker ${sessionId}`, after: { paused: false } });
        return resumed;
      });
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

/** One row for all jobs of a request. */
function enqueueRow(by: Caller, jobs: readonly JobToInsert[]): AuditRow | undefined {
  const [first] = jobs;
  const last = jobs.at(-1);
  if (!first || !last) return undefined;
  const { id, type, queue = DEFAULT_QUEUE, payload } = first;
  const single = { type, queue, payload: digestOf(payload) };
  return auditRow(by, {
    target: id,
    after: jobs.length === 1 ? single : { jobs: jobs.length, first: id, last: last.id },
  });
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
