/**
 * Adds the jobs of the API: concurrent requests are batched into one statement. A job whose lane is empty while a
 * suitable worker of this server has a free slot is inserted as already granted and sent to it after the commit.
 *
 * Invariants: an answer "added" follows the commit; a request that is refused for load (429, 503) is refused before
 * anything is sent; a request is never split over two commits; a job that the database refuses fails its own request
 * only.
 */

import { DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, DroverError } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import { createGatherer } from '../base/gather.js';
import type { Runner } from '../db/database.js';
import { isPassing, isUnknown } from '../db/database-error.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import { assignmentText } from '../lifecycle/assignment-text.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import type { Sessions } from '../sessions/registry.js';
import type { Session } from '../sessions/session.js';
import type { Metrics } from '../telemetry/metrics.js';
import { insertJobs } from './insert-jobs.js';
import { refusalOf } from './refusal.js';

export type Admission = {
  /** See Engine. */
  enqueue(jobs: readonly JobToInsert[]): Promise<ReadonlySet<number>>;
  /** Jobs that wait to be written. */
  readonly pending: number;
  /** Refuses new requests. Resolves when the others are done. */
  stop(): Promise<void>;
};

type AdmissionDeps = {
  db: Runner;
  dispatcher: Pick<Dispatcher, 'reserve' | 'deliver' | 'doubt' | 'wake'>;
  sessions: Sessions;
  logger: Logger;
  metrics: Pick<Metrics, 'enqueued'>;
  maxPending: number;
  /** Called when jobs are ready that this server's own workers may not take. */
  onReady(): void;
  /** Called when a job becomes due in this many milliseconds. */
  onScheduled(inMs: number): void;
};

const MAX_JOBS_PER_STATEMENT = 2000;
const STATEMENTS_AT_ONCE = 2;
const TRIES = 4;
const FIRST_PAUSE_MS = 50;

type Request = readonly JobToInsert[];
/** The places of a request's jobs that existed already. */
type Existed = ReadonlySet<number>;
/** A job with the worker that it is granted to, if any. */
type Placed = { job: JobToInsert; sessionId: string | undefined; session: Session | undefined };

const NONE: Existed = new Set();

export function createAdmission(deps: AdmissionDeps): Admission {
  const { db, dispatcher, logger } = deps;
  let stopping = false;

  const gatherer = createGatherer<Request, Existed>({
    weigh: (jobs) => jobs.length,
    maxWeight: MAX_JOBS_PER_STATEMENT,
    concurrency: STATEMENTS_AT_ONCE,
    flush: insertRequests,
  });

  /** A refused batch is halved until the request at fault is alone. */
  async function insertRequests(requests: readonly Request[]): Promise<(Existed | Error)[]> {
    try {
      return await insertTogether(requests);
    } catch (error) {
      if (isPassing(error)) throw notConfirmed(error);
      if (requests.length === 1) return [refusalOf(requests[0] as Request, error as Error)];
      const middle = Math.ceil(requests.length / 2);
      const halves = [requests.slice(0, middle), requests.slice(middle)];
      return (await Promise.all(halves.map(settled))).flat();
    }
  }

  /** A failure of one half must not fail the other. */
  function settled(requests: readonly Request[]): Promise<(Existed | Error)[]> {
    return insertRequests(requests).catch((error: Error) => requests.map(() => error));
  }

  async function insertTogether(requests: readonly Request[]): Promise<Existed[]> {
    const jobs = requests.length === 1 ? (requests[0] as Request) : requests.flat();
    const unique = uniqueById(jobs);
    const placed = reservePlaces(unique);
    try {
      const existing = await insertUntilKnown(placed);
      failpoint('insert.committed');
      deps.metrics.enqueued.inc(placed.length - existing.size);
      deliver(placed, existing);
      if (existing.size === 0 && unique.length === jobs.length) return requests.map(() => NONE);
      return existedIn(requests, existing);
    } catch (error) {
      releasePlaces(placed, error);
      throw error;
    }
  }

  /** Assigns jobs to free workers. In each lane, the first job without a free worker ends that. */
  function reservePlaces(jobs: readonly JobToInsert[]): Placed[] {
    const full = new Set<string>();
    return jobs.map((job) => {
      const session = reservePlace(job, full);
      return { job, sessionId: session?.id, session };
    });
  }

  function reservePlace(
    { id, type, queue = DEFAULT_QUEUE, options }: JobToInsert,
    full: Set<string>,
  ): Session | undefined {
    if (deps.sessions.size === 0 || options?.delay || options?.runAt || options?.expiresAt) return undefined;
    const lane = `${queue} ${type}`;
    if (full.has(lane)) return undefined;
    const session = dispatcher.reserve(queue, type);
    if (session) session.arriving.add(id);
    else full.add(lane);
    return session;
  }

  /**
   * Repeats an insert that fails while the database is briefly unavailable. The ids make the repetition idempotent.
   */
  async function insertUntilKnown(rows: readonly Placed[]): Promise<ReadonlySet<string>> {
    let unknown: unknown;
    for (let tried = 1, pauseMs = FIRST_PAUSE_MS; ; tried++, pauseMs *= 3) {
      failpoint('insert.before');
      try {
        const existing = await insertJobs(db, rows, { mayExist: tried > 1 });
        // an earlier try, of this server or another one, may be committed on the primary alone
        if (existing.size > 0) await replicationBarrier(db);
        return existing;
      } catch (error) {
        if (isUnknown(error)) unknown ??= error;
        // the outcome of an earlier try is unknown, whatever the outcome of this one
        if (!isPassing(error) || tried === TRIES) throw unknown ?? error;
        logger.warn(
          { event: 'enqueue.retried', err: error, jobs: rows.length },
          'jobs could not be inserted, retrying',
        );
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  function deliver(placed: readonly Placed[], existing: ReadonlySet<string>): void {
    const granted = new Map<Session, { id: string; fence: number; assignment: string }[]>();
    let waiting = 0;
    for (const { job, session } of placed) {
      if (session === undefined) {
        const dueInMs = dueIn(job);
        if (dueInMs === undefined) waiting += 1;
        else deps.onScheduled(dueInMs);
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
    deps.onReady();
  }

  function releasePlaces(placed: readonly Placed[], error: unknown): void {
    for (const { job, session } of placed) {
      if (!session) continue;
      session.arriving.delete(job.id);
      session.reserved -= 1;
      if (isPassing(error)) dispatcher.doubt(session);
    }
  }

  return {
    async enqueue(jobs) {
      if (stopping) {
        throw new DroverError('shutting_down', 'this server is stopping; send the request to another one');
      }
      if (gatherer.pending > 0 && gatherer.pending + jobs.length > deps.maxPending) {
        const message = `${gatherer.pending} jobs are waiting to be written, the limit is ${deps.maxPending}`;
        throw new DroverError('overloaded', message);
      }
      return jobs.length === 0 ? NONE : gatherer.add(jobs);
    },
    get pending() {
      return gatherer.pending;
    },
    async stop() {
      stopping = true;
      await gatherer.idle();
    },
  };
}

/** Undefined: the job can start now. */
function dueIn({ options }: JobToInsert): number | undefined {
  const inMs = options?.runAt === undefined ? options?.delay : Date.parse(options.runAt) - Date.now();
  return inMs !== undefined && inMs > 0 ? inMs : undefined;
}

/** The same id twice in one statement would be two grants of one job. */
function uniqueById(jobs: readonly JobToInsert[]): readonly JobToInsert[] {
  const ids = new Set(jobs.map(({ id }) => id));
  return ids.size === jobs.length ? jobs : jobs.filter(({ id }) => ids.delete(id));
}

/**
 * The places of the jobs that existed, for each request. A repeated id is one job, created by its first occurrence.
 */
function existedIn(requests: readonly Request[], existing: ReadonlySet<string>): Existed[] {
  const known = new Set(existing);
  return requests.map((jobs) => {
    const existed = new Set<number>();
    jobs.forEach(({ id }, place) => {
      if (known.has(id)) existed.add(place);
      known.add(id);
    });
    return existed;
  });
}

/** The assignment of a job that was granted with its insert: first attempt, first fence. */
function firstAssignment({ id, type, queue = DEFAULT_QUEUE, payload, options = {} }: JobToInsert): string {
  const { timeout, backoff, onLost, maxAttempts = DEFAULT_MAX_ATTEMPTS } = options;
  const isPlain = timeout === undefined && backoff === undefined && onLost !== 'hold';
  const rest = isPlain ? undefined : JSON.stringify({ timeoutMs: timeout, backoff, onLost });
  return assignmentText({ id, type, queue, maxAttempts, payload, rest, fence: 1, attempt: 1 });
}

/** The database's message stays in the log: it may name hosts and users. */
function notConfirmed(cause: unknown): DroverError {
  return new DroverError('database_unavailable', 'the database did not confirm the jobs', undefined, { cause });
}
