/**
 * Places on this server's workers for jobs that are about to be inserted: a job whose lane is empty is granted to a
 * suitable worker with a free slot in the statement that inserts it.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import { isPassing } from '../db/database-error.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import type { Sessions } from '../sessions/registry.js';
import type { Session } from '../sessions/session.js';

/** A job with the worker that it is granted to, if any. */
export type PlacedJob = { job: JobToInsert; sessionId: string | undefined; session: Session | undefined };

type ReserveDeps = { dispatcher: Pick<Dispatcher, 'reserve'>; sessions: Sessions };

/** Assigns jobs to free workers. In each lane, the first job without a free worker ends that. */
export function reservePlaces(deps: ReserveDeps, jobs: readonly JobToInsert[]): PlacedJob[] {
  const full = new Set<string>();
  return jobs.map((job) => {
    const session = reservePlace(deps, job, full);
    return { job: session ? asHeldBy(session, job) : job, sessionId: session?.id, session };
  });
}

function reservePlace(
  { dispatcher, sessions }: ReserveDeps,
  { id, type, queue = DEFAULT_QUEUE, options }: JobToInsert,
  full: Set<string>,
): Session | undefined {
  if (sessions.size === 0 || options?.delay || options?.runAt || options?.expiresAt) return undefined;
  const lane = `${queue} ${type}`;
  if (full.has(lane)) return undefined;
  const session = dispatcher.reserve(queue, type);
  if (session) session.arriving.add(id);
  else full.add(lane);
  return session;
}

/** As the claim does: where the job and the definition of its worker differ, the stricter policy for a loss applies. */
function asHeldBy({ holdTypes }: Session, job: JobToInsert): JobToInsert {
  if (job.options?.onLost === 'hold' || !holdTypes.includes(job.type)) return job;
  return { ...job, options: { ...job.options, onLost: 'hold' } };
}

/** Gives back the places of jobs that could not be inserted. */
export function releasePlaces(
  dispatcher: Pick<Dispatcher, 'doubt'>,
  placed: readonly PlacedJob[],
  error: unknown,
): void {
  for (const { job, session } of placed) {
    if (!session) continue;
    session.arriving.delete(job.id);
    session.reserved -= 1;
    if (isPassing(error)) dispatcher.doubt(session);
  }
}
