/**
 * Adding jobs: requests are gathered into one statement, and a job whose lane is empty while a suitable
 * worker of this server has a free slot is inserted as already granted and pushed after that one commit.
 *
 * What always holds: an answer "added" follows the commit; what is refused (429, 503) is refused before
 * anything is sent; a request is never split over two commits.
 */
import { DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, DroverError } from '@drover/protocol';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { DatabaseError, isPassing } from '../db/database-error.js';
import { failpoint } from '../failpoint.js';
import { createGatherer } from '../gather.js';
import { assignmentText } from '../lifecycle/assignment-text.js';
import { type InsertOptions, insertJobs, type JobToInsert, type RowToInsert } from '../lifecycle/enqueue.js';
import type { Eras } from '../lifecycle/eras.js';
import { createKnownLanes } from '../lifecycle/known-lanes.js';
import { UnreadableJson, UnreadJson } from '../lifecycle/unread-json.js';
import type { Metrics } from '../metrics.js';
import type { Dispatcher } from './dispatcher.js';
import type { Session } from './session.js';

/** Jobs that are added by one request. */
export type AddRequest = {
  jobs: JobToInsert[];
  /** If the ids of its jobs were made for this request and have never been sent before: in which era. */
  era?: number | undefined;
  /** The jobs were sent with an era before, and what became of them is not known. */
  isRepeated?: boolean | undefined;
};

export type Intake = {
  /** See Engine. */
  enqueue(request: AddRequest): Promise<ReadonlySet<number>>;
  /** Jobs that wait to be written. */
  readonly pending: number;
  /** Refuses what comes from now on and resolves when the rest is done. */
  stop(): Promise<void>;
};

type IntakeDeps = {
  db: Runner;
  eras: Eras;
  dispatcher: Dispatcher;
  logger: Logger;
  metrics: Pick<Metrics, 'enqueued'>;
  maxPending: number;
  /** Jobs are ready that this server's own workers may not get to. */
  onReady(): void;
  /** A job will be due in this many milliseconds. */
  onScheduled(inMs: number): void;
};

const MAX_JOBS_A_STATEMENT = 2000;
const STATEMENTS_AT_ONCE = 2;
const TRIES = 4;
const FIRST_PAUSE_MS = 50;
/** The class of PostgreSQL's errors about values. */
const DATA_EXCEPTION = '22';

/** Which jobs of a request existed. */
type Existed = ReadonlySet<number>;
/** What became of one request; an error of its own must not be one of the others. */
type Answer = Existed | Error;

const NONE: Existed = new Set();

/** A job with its place, if it was given one. */
type Prepared = RowToInsert & { session: Session | undefined };

export function createIntake(deps: IntakeDeps): Intake {
  const { db, eras, dispatcher, logger } = deps;
  const lanes = createKnownLanes();
  let stopping = false;

  const gatherer = createGatherer<AddRequest, Existed>({
    weigh: ({ jobs }) => jobs.length,
    maxWeight: MAX_JOBS_A_STATEMENT,
    concurrency: STATEMENTS_AT_ONCE,
    flush: insertRequests,
  });

  function insertRequests(requests: AddRequest[]): Promise<Answer[]> {
    const [first] = requests as [AddRequest];
    const jobs = requests.length === 1 ? first.jobs : requests.flatMap((request) => request.jobs);
    const unique = uniqueById(jobs);
    const prepared = prepare(unique);
    const era = requests.every((request) => request.era === first.era) ? first.era : undefined;
    const isRepeated = requests.some((request) => request.isRepeated);

    const inserted = (duplicates: ReadonlySet<string>): Answer[] => {
      failpoint('insert.committed');
      deps.metrics.enqueued.inc(prepared.length - duplicates.size);
      deliver(prepared, duplicates);
      if (duplicates.size === 0 && unique.length === jobs.length) return requests.map(() => NONE);
      return existedIn(requests, duplicates);
    };
    const failed = (error: unknown): Promise<Answer[]> => {
      giveUpPlaces(prepared, error);
      // one request that the database refuses must not take the others with it
      if (requests.length > 1 && error instanceof UnreadableJson) return withoutUnreadable(requests, error);
      if (requests.length > 1 && !isPassing(error)) return oneByOne(requests);
      throw asDroverError(error);
    };
    return insertOnce(prepared, { isRepeated, lanes, eras, era }).then(inserted, (error: unknown) =>
      insertAgain(prepared, error).then(inserted, failed),
    );
  }

  /** Here it can be told which requests are at fault, so the others stay together. */
  async function withoutUnreadable(requests: AddRequest[], error: UnreadableJson): Promise<Answer[]> {
    const good = requests.filter(({ jobs }) =>
      jobs.every(({ payload }) => !(payload instanceof UnreadJson) || payload.isJson()),
    );
    if (good.length === requests.length) return oneByOne(requests);
    const answers = good.length > 0 ? await insertRequests(good.map(withoutEra)) : [];
    return requests.map((request) => answers[good.indexOf(request)] ?? error);
  }

  async function oneByOne(requests: AddRequest[]): Promise<Answer[]> {
    const settled = await Promise.allSettled(requests.map((request) => insertRequests([withoutEra(request)])));
    return settled.map((answer) =>
      answer.status === 'fulfilled' ? (answer.value[0] as Answer) : (answer.reason as Error),
    );
  }

  /** Gives jobs to free workers as long as there are any; the first that finds none ends that for its lane. */
  function prepare(jobs: JobToInsert[]): Prepared[] {
    const full = new Set<string>();
    return jobs.map((job) => {
      const session = reservePlace(job, full);
      // the text is written once and used by the insert and by the assignment
      return { job, payloadText: payloadText(job.payload), sessionId: session?.id, session };
    });
  }

  function reservePlace(job: JobToInsert, full: Set<string>): Session | undefined {
    if (job.delay || job.runAt || job.expiresAt || dispatcher.sessions.size === 0) return undefined;
    const queue = job.queue ?? DEFAULT_QUEUE;
    const lane = `${queue} ${job.type}`;
    if (full.has(lane)) return undefined;
    const session = dispatcher.reserve(queue, job.type);
    if (session) session.arriving.add(job.id);
    else full.add(lane);
    return session;
  }

  /** Repeats an insert that has failed while the database is only passingly away: the ids make that the same jobs. */
  async function insertAgain(rows: readonly RowToInsert[], first: unknown): Promise<ReadonlySet<string>> {
    let error = first;
    for (let tried = 1, pauseMs = FIRST_PAUSE_MS; isPassing(error) && tried < TRIES; tried++, pauseMs *= 3) {
      logger.warn({ err: error, jobs: rows.length }, 'jobs could not be inserted, trying again');
      lanes.forget();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      try {
        return await insertOnce(rows, { isRepeated: true, eras });
      } catch (next) {
        // what became of an earlier try is not known, whatever is wrong with this one
        if (!isPassing(next)) throw isUnknown(error) ? error : next;
        if (!isUnknown(error)) error = next;
      }
    }
    throw error;
  }

  function insertOnce(rows: readonly RowToInsert[], options: InsertOptions): Promise<ReadonlySet<string>> {
    failpoint('insert.before');
    try {
      return insertJobs(db, rows, options);
    } catch (error) {
      // such as a text that is longer than JavaScript holds
      return Promise.reject(error);
    }
  }

  function deliver(prepared: Prepared[], duplicates: ReadonlySet<string>): void {
    const granted = new Map<Session, { id: string; fence: number; assignment: string }[]>();
    let waiting = 0;
    for (const { job, payloadText, session } of prepared) {
      if (session) {
        session.arriving.delete(job.id);
        if (duplicates.has(job.id)) {
          // perhaps our own first try, whose answer was lost
          session.reserved -= 1;
          dispatcher.doubt(session);
          continue;
        }
        const jobs = granted.get(session) ?? [];
        jobs.push({ id: job.id, fence: 1, assignment: firstAssignment(job, payloadText) });
        granted.set(session, jobs);
      } else if (job.delay !== undefined || job.runAt !== undefined) {
        deps.onScheduled(job.delay ?? Date.parse(job.runAt as string) - Date.now());
      } else {
        waiting += 1;
      }
    }
    for (const [session, jobs] of granted) dispatcher.deliver(session, jobs);
    if (waiting > 0) {
      dispatcher.wake();
      deps.onReady();
    }
  }

  function giveUpPlaces(prepared: Prepared[], error: unknown): void {
    for (const { job, session } of prepared) {
      if (!session) continue;
      session.arriving.delete(job.id);
      session.reserved -= 1;
      if (isPassing(error)) dispatcher.doubt(session);
    }
  }

  return {
    enqueue(request) {
      const { jobs } = request;
      if (stopping) {
        const message = 'this server is stopping; send the request to another one';
        return Promise.reject(new DroverError('shutting_down', message));
      }
      if (gatherer.pending > 0 && gatherer.pending + jobs.length > deps.maxPending) {
        const message = `${gatherer.pending} jobs are waiting to be written, the limit is ${deps.maxPending}`;
        return Promise.reject(new DroverError('overloaded', message));
      }
      return jobs.length === 0 ? Promise.resolve(NONE) : gatherer.add(request);
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

/** After a statement for several requests: perhaps it was tried more than once, and its jobs are not sent for the first time. */
function withoutEra({ jobs, isRepeated }: AddRequest): AddRequest {
  return { jobs, isRepeated };
}

function payloadText(payload: unknown): string {
  return payload instanceof UnreadJson ? payload.text : JSON.stringify(payload ?? null);
}

/** Twice the same id in one statement would be two grants of one job. */
function uniqueById(jobs: JobToInsert[]): JobToInsert[] {
  if (isIncreasing(jobs)) return jobs;
  const byId = new Map<string, JobToInsert>();
  for (const job of jobs) if (!byId.has(job.id)) byId.set(job.id, job);
  return byId.size === jobs.length ? jobs : [...byId.values()];
}

/** As the ids of one client do, which saves the map. */
function isIncreasing(jobs: JobToInsert[]): boolean {
  for (let index = 1; index < jobs.length; index++) {
    if ((jobs[index - 1] as JobToInsert).id >= (jobs[index] as JobToInsert).id) return false;
  }
  return true;
}

/** Of each request, the places of the jobs that existed. An id that comes twice is one job, which the first has made. */
function existedIn(requests: AddRequest[], duplicates: ReadonlySet<string>): ReadonlySet<number>[] {
  const known = new Set(duplicates);
  return requests.map(({ jobs }) => {
    const existed = new Set<number>();
    jobs.forEach(({ id }, place) => {
      if (known.has(id)) existed.add(place);
      known.add(id);
    });
    return existed;
  });
}

/** The assignment of a job that was granted with its insert: first attempt, first fence. */
function firstAssignment(job: JobToInsert, payloadText: string): string {
  const { id, type, timeout, backoff, onLost } = job;
  const rest =
    timeout === undefined && backoff === undefined && onLost !== 'hold'
      ? undefined
      : JSON.stringify({ timeoutMs: timeout, backoff, onLost });
  return assignmentText({
    ...{ id, type, rest, fence: 1, attempt: 1, payload: payloadText },
    queue: job.queue ?? DEFAULT_QUEUE,
    maxAttempts: job.maxAttempts ?? DEFAULT_MAX_ATTEMPTS,
  });
}

function isUnknown(error: unknown): boolean {
  return error instanceof DatabaseError && error.kind === 'unknown';
}

/** What the database says stays in the log, but for what is about the values of the jobs: it may name hosts and users. */
function asDroverError(error: unknown): Error {
  if (!(error instanceof DatabaseError)) return error as Error;
  if (isPassing(error)) {
    return new DroverError('database_unavailable', 'the database did not confirm the jobs', undefined, {
      cause: error,
    });
  }
  if (!error.sqlState?.startsWith(DATA_EXCEPTION)) return error;
  return new DroverError('invalid_request', `the database refused the jobs: ${error.message}`);
}
