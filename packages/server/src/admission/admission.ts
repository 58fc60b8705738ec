/**
 * Adds the jobs of the API: concurrent requests are batched into one statement. A job whose lane is empty while a
 * suitable worker of this server has a free slot is inserted as already granted and sent to it after the commit.
 *
 * Invariants: an answer "added" follows the commit; a request that is refused for load (429, 503) is refused before
 * anything is sent; a request is never split over two commits; a job that the database refuses fails its own request
 * only.
 */

import { DroverError } from '@drover/protocol';
import { createGatherer } from '@drover/protocol/gather';
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { AuditRow } from '../access/audit.js';
import type { Runner } from '../db/database.js';
import { isPassing } from '../db/database-error.js';
import { splitBatch } from '../db/split-batch.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import type { Sessions } from '../sessions/registry.js';
import type { Metrics } from '../telemetry/metrics.js';
import { deliverInserted, type InsertListeners } from './deliver-inserted.js';
import { insertUntilKnown } from './insert-until-known.js';
import { refusalOf } from './refusal.js';
import { releasePlaces, reservePlaces } from './reserve-places.js';

export type Admission = {
  /** See Engine. `audit`: written with the jobs. */
  enqueue(jobs: readonly JobToInsert[], audit?: AuditRow): Promise<ReadonlySet<number>>;
  /** Jobs that wait to be written. */
  readonly pending: number;
  /** Refuses new requests. Resolves when the others are done. */
  stop(): Promise<void>;
};

type AdmissionDeps = InsertListeners & {
  db: Runner;
  dispatcher: Pick<Dispatcher, 'reserve' | 'deliver' | 'doubt' | 'wake'>;
  sessions: Sessions;
  logger: Logger;
  metrics: Pick<Metrics, 'enqueued'>;
  maxPending: number;
  auditEnqueues: boolean;
};

const MAX_JOBS_PER_STATEMENT = 2000;
/**
 * A job counts for each of these in its payload, so requests that share a statement have at most 16 Mi characters: the
 * statement is one string of the server and one message to PostgreSQL.
 */
const CHARACTERS_PER_JOB = 8192;
const STATEMENTS_AT_ONCE = 2;

type Request = readonly JobToInsert[];
/** The places of a request's jobs that existed already. */
type Existed = ReadonlySet<number>;

const NONE: Existed = new Set();

export function createAdmission(deps: AdmissionDeps): Admission {
  let stopping = false;
  let pending = 0;
  /** Rows of the audit trail; requests have none unless `auditEnqueues` is set. */
  const audits = new WeakMap<Request, AuditRow>();

  const gatherer = createGatherer<Request, Existed>({
    weigh: weightOf,
    maxWeight: MAX_JOBS_PER_STATEMENT,
    concurrency: STATEMENTS_AT_ONCE,
    flush: insertRequests,
  });

  async function insertRequests(requests: readonly Request[]): Promise<(Existed | Error)[]> {
    const results = await splitBatch<Request, Existed>(requests, { run: insertTogether, refuse: refusalOf });
    return results.map((result) => (isPassing(result) ? notConfirmed(result) : result));
  }

  async function insertTogether(requests: readonly Request[]): Promise<Existed[]> {
    const jobs = requests.length === 1 ? (requests[0] as Request) : requests.flat();
    const unique = uniqueById(jobs);
    const placed = reservePlaces(deps, unique);
    try {
      const existing = await insertUntilKnown(
        deps,
        placed,
        deps.auditEnqueues ? requests.flatMap((one) => audits.get(one) ?? []) : [],
      );
      failpoint('insert.committed');
      deps.metrics.enqueued.inc(placed.length - existing.size);
      deliverInserted(deps, placed, existing);
      if (existing.size === 0 && unique.length === jobs.length) return requests.map(() => NONE);
      return existedIn(requests, existing);
    } catch (error) {
      releasePlaces(deps.dispatcher, placed, error);
      throw error;
    }
  }

  return {
    async enqueue(jobs, audit) {
      if (stopping) {
        throw new DroverError('shutting_down', 'this server is stopping; send the request to another one');
      }
      if (pending > 0 && pending + jobs.length > deps.maxPending) {
        const message = `${pending} jobs are waiting to be written, the limit is ${deps.maxPending}`;
        throw new DroverError('overloaded', message);
      }
      if (jobs.length === 0) return NONE;
      if (audit !== undefined) audits.set(jobs, audit);
      pending += jobs.length;
      try {
        return await gatherer.add(jobs);
      } finally {
        pending -= jobs.length;
      }
    },
    get pending() {
      return pending;
    },
    async stop() {
      stopping = true;
      await gatherer.idle();
    },
  };
}

/** In jobs of a usual size. */
function weightOf(jobs: Request): number {
  const characters = jobs.reduce((sum, { payload }) => sum + payload.length, 0);
  return Math.max(jobs.length, Math.ceil(characters / CHARACTERS_PER_JOB));
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

/** The database's message stays in the log: it may name hosts and users. */
function notConfirmed(cause: unknown): DroverError {
  return new DroverError('database_unavailable', 'the database did not confirm the jobs', undefined, { cause });
}
