/**
 * Batches enqueues without a timer: the first job is sent at once; jobs that arrive while a request is in progress
 * share the next one. A single enqueue has no added latency, and a busy client sends batches of hundreds.
 *
 * Invariant: a caller only learns about its own job. The server accepts or refuses a batch as a whole. When it
 * refuses a batch for its content, the jobs at fault are sent alone and the others again without them.
 */
import { type BulkJob, DroverError, type FieldIssue, LIMITS } from '@drover/protocol';
import { type Gatherer as Batches, createGatherer } from '@drover/protocol/gather';

const REQUESTS_AT_ONCE = 2;
/** Characters of one request: large enough to amortise it, small enough to build without blocking the event loop. */
const MAX_BATCH_LENGTH = 8 * 1024 * 1024;
/** A job counts for at least so many, so that a request never has more jobs than it may. */
const MIN_JOB_LENGTH = Math.ceil(MAX_BATCH_LENGTH / LIMITS.batchJobs);
/** Total characters that may wait for an answer. */
const MAX_WAITING_LENGTH = 256 * 1024 * 1024;

/** Sends jobs as one request. Returns the places of those that existed already. */
export type SendJobs = (jobs: readonly BulkJob[]) => Promise<ReadonlySet<number>>;

export class Gatherer {
  readonly #batches: Batches<BulkJob, boolean>;
  #waitingLength = 0;

  constructor(send: SendJobs) {
    this.#batches = createGatherer({
      weigh: (job) => Math.max(lengthOf(job), MIN_JOB_LENGTH),
      maxWeight: MAX_BATCH_LENGTH,
      concurrency: REQUESTS_AT_ONCE,
      flush: (jobs) => sendTogether(send, jobs),
    });
  }

  /** Resolves when the job is in the database: false if it existed already. */
  async add(job: BulkJob): Promise<boolean> {
    const length = lengthOf(job);
    if (this.#waitingLength + length > MAX_WAITING_LENGTH && this.#waitingLength > 0) {
      const message = `over ${MAX_WAITING_LENGTH} characters of jobs wait to be sent; await earlier enqueues first`;
      throw new DroverError('overloaded', message);
    }
    this.#waitingLength += length;
    try {
      return await this.#batches.add(job);
    } finally {
      this.#waitingLength -= length;
    }
  }

  /** Resolves when no job waits and no request is in progress. */
  whenIdle(): Promise<void> {
    return this.#batches.idle();
  }
}

function lengthOf({ head, payload }: BulkJob): number {
  return head.length + payload.length;
}

/** For each job whether it was created, or why it was refused. */
async function sendTogether(send: SendJobs, jobs: readonly BulkJob[]): Promise<(boolean | Error)[]> {
  try {
    const existed = await send(jobs);
    return jobs.map((_, place) => !existed.has(place));
  } catch (error) {
    if (jobs.length === 1) return [withoutPlace(error) as Error];
    if (!isAboutContent(error)) return jobs.map(() => error as Error);
    const results: (boolean | Error)[] = [];
    for (const places of separate(jobs, error)) {
      const part = await sendTogether(
        send,
        places.map((place) => jobs[place] as BulkJob),
      );
      places.forEach((place, index) => {
        results[place] = part[index] as boolean | Error;
      });
    }
    return results;
  }
}

/** A caller who adds one job knows which it is: not `jobs[0].payload` but `payload`. */
function withoutPlace(error: unknown): unknown {
  if (!isAboutContent(error)) return error;
  const withoutIt = (text: string) => text.replaceAll(/\bjobs\[0\]\./g, '');
  const { issues, ...details } = (error.details ?? {}) as { issues?: readonly FieldIssue[] };
  const own = issues?.map((issue) => ({ ...issue, field: withoutIt(issue.field) }));
  return new DroverError(error.code, withoutIt(error.message), own ? { ...details, issues: own } : error.details);
}

function isAboutContent(error: unknown): error is DroverError {
  return error instanceof DroverError && (error.status === 400 || error.status === 413);
}

/** Places of jobs to send again: each that the server named is alone; if it named none, they are halved. */
function separate(jobs: readonly BulkJob[], error: DroverError): number[][] {
  const places = jobs.map((_, place) => place);
  const named = namedJobs(error.details);
  const atFault = places.filter((place) => named.has(place));
  if (atFault.length === 0 || atFault.length === places.length) {
    const middle = Math.ceil(places.length / 2);
    return [places.slice(0, middle), places.slice(middle)];
  }
  return [places.filter((place) => !named.has(place)), ...atFault.map((place) => [place])];
}

/** Indexes in issues such as `jobs[3].queue`. */
export function namedJobs(details: unknown): Set<number> {
  const issues = (details as { issues?: unknown } | null | undefined)?.issues;
  const named = new Set<number>();
  for (const issue of Array.isArray(issues) ? (issues as { field?: unknown }[]) : []) {
    const match = /^jobs\[(\d+)\]/.exec(String(issue?.field));
    if (match) named.add(Number(match[1]));
  }
  return named;
}
