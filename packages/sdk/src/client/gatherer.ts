/**
 * Batches enqueues without a timer: the first job is sent at once; jobs that arrive while a request is in progress
 * share the next one. A single enqueue has no added latency, and a busy client sends batches of hundreds.
 *
 * Invariant: a caller only learns about its own job. The server accepts or refuses a batch as a whole. When it
 * refuses a batch for its content, the jobs at fault are sent alone and the others again without them.
 */
import { type BulkJob, DroverError, type FieldIssue, LIMITS } from '@drover/protocol';

const MAX_REQUESTS_IN_FLIGHT = 2;
/** Characters of one request: large enough to amortise it, small enough to build without blocking the event loop. */
const MAX_BATCH_LENGTH = 8 * 1024 * 1024;
/** Total characters that may wait for a request. */
const MAX_WAITING_LENGTH = 256 * 1024 * 1024;

/** Sends jobs as one request. Returns the places of those that existed already. */
export type SendJobs = (jobs: readonly BulkJob[]) => Promise<ReadonlySet<number>>;

type Waiting = {
  job: BulkJob;
  length: number;
  /** `created` is false if the job existed already. */
  resolve: (created: boolean) => void;
  reject: (error: unknown) => void;
};

export class Gatherer {
  readonly #send: SendJobs;
  #waiting: Waiting[] = [];
  #waitingLength = 0;
  #inFlight = 0;
  #isFlushDue = false;
  #idleListeners: (() => void)[] = [];

  constructor(send: SendJobs) {
    this.#send = send;
  }

  /** Resolves when the job is in the database: false if it existed already. */
  add(job: BulkJob): Promise<boolean> {
    const length = job.head.length + job.payload.length;
    if (this.#waitingLength + length > MAX_WAITING_LENGTH && this.#waiting.length > 0) {
      const message = `over ${MAX_WAITING_LENGTH} characters of jobs wait to be sent; await earlier enqueues first`;
      return Promise.reject(new DroverError('overloaded', message));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, length, resolve, reject });
      this.#waitingLength += length;
      if (this.#isFlushDue || this.#inFlight >= MAX_REQUESTS_IN_FLIGHT) return;
      this.#isFlushDue = true;
      queueMicrotask(() => this.#flush());
    });
  }

  /** Resolves when no job waits and no request is in progress. */
  whenIdle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    return new Promise((resolve) => this.#idleListeners.push(resolve));
  }

  #isIdle(): boolean {
    return this.#inFlight === 0 && this.#waiting.length === 0;
  }

  #flush(): void {
    this.#isFlushDue = false;
    while (this.#waiting.length > 0 && this.#inFlight < MAX_REQUESTS_IN_FLIGHT) {
      this.#inFlight++;
      void this.#deliver(this.#takeBatch());
    }
  }

  #takeBatch(): Waiting[] {
    let count = 0;
    let total = 0;
    for (const { length } of this.#waiting) {
      if (count >= LIMITS.batchJobs || (count > 0 && total + length > MAX_BATCH_LENGTH)) break;
      count++;
      total += length;
    }
    const batch = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    this.#waitingLength -= total;
    return batch;
  }

  /** Never rejects: every path settles the promises of the batch. */
  async #deliver(batch: Waiting[]): Promise<void> {
    const groups = [batch];
    for (let group = groups.pop(); group !== undefined; group = groups.pop()) {
      try {
        const existed = await this.#send(group.map(({ job }) => job));
        group.forEach(({ resolve }, place) => {
          resolve(!existed.has(place));
        });
      } catch (error) {
        if (group.length > 1 && isAboutContent(error)) groups.push(...separate(group, error));
        else for (const job of group) job.reject(group.length === 1 ? withoutPlace(error) : error);
      }
    }
    this.#inFlight--;
    this.#flush();
    if (this.#isIdle()) for (const listener of this.#idleListeners.splice(0)) listener();
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

/** Splits off each job that the server named; halves the group if it named none. */
function separate(group: Waiting[], error: DroverError): Waiting[][] {
  const named = namedJobs(error.details);
  const isNamed = (_job: Waiting, index: number) => named.has(index);
  const atFault = group.filter(isNamed);
  if (atFault.length === 0 || atFault.length === group.length) {
    const middle = Math.ceil(group.length / 2);
    return [group.slice(middle), group.slice(0, middle)];
  }
  const others = group.filter((job, index) => !isNamed(job, index));
  return [...atFault.map((job) => [job]), others];
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
