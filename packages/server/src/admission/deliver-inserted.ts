/** After the commit of an insert: sends the jobs that were granted with it, and announces the others. */
import { DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE } from '@drover/protocol';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import { assignmentText } from '../lifecycle/assignment-text.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import type { GrantedJob } from '../sessions/channel.js';
import type { Session } from '../sessions/session.js';
import type { PlacedJob } from './reserve-places.js';

export type InsertListeners = {
  /** Called when jobs are ready that this server's own workers may not take. */
  onReady(): void;
  /** Called when a job becomes due in this many milliseconds. */
  onScheduled(inMs: number): void;
};

type DeliverDeps = InsertListeners & { dispatcher: Pick<Dispatcher, 'deliver' | 'doubt' | 'wake'> };

export function deliverInserted(
  { dispatcher, onReady, onScheduled }: DeliverDeps,
  placed: readonly PlacedJob[],
  existing: ReadonlySet<string>,
): void {
  const granted = new Map<Session, GrantedJob[]>();
  let waiting = 0;
  for (const { job, session } of placed) {
    if (session === undefined) {
      const dueInMs = dueIn(job);
      if (dueInMs === undefined) waiting += 1;
      else onScheduled(dueInMs);
      continue;
    }
    session.arriving.delete(job.id);
    if (existing.has(job.id)) {
      // possibly our own first try, whose answer was lost
      session.reserved -= 1;
      dispatcher.doubt(session);
      continue;
    }
    const jobs = granted.get(session) ?? [];
    jobs.push({ id: job.id, fence: 1, assignment: firstAssignment(job) });
    granted.set(session, jobs);
  }
  for (const [session, jobs] of granted) dispatcher.deliver(session, jobs);
  if (waiting === 0) return;
  dispatcher.wake();
  onReady();
}

/** Undefined: the job can start now. */
function dueIn({ options }: JobToInsert): number | undefined {
  const inMs = options?.runAt === undefined ? options?.delay : Date.parse(options.runAt) - Date.now();
  return inMs !== undefined && inMs > 0 ? inMs : undefined;
}

/** The assignment of a job that was granted with its insert: first attempt, first fence. */
function firstAssignment({ id, type, queue = DEFAULT_QUEUE, payload, options }: JobToInsert): string {
  const { maxAttempts = DEFAULT_MAX_ATTEMPTS, onLost } = options ?? {};
  const parts = {
    id,
    type,
    queue,
    maxAttempts,
    hold: onLost === 'hold',
    payload,
    options: options ? JSON.stringify(options) : null,
  };
  return assignmentText({ ...parts, fence: 1, attempt: 1 });
}
