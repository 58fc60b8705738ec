/**
 * The client: what an application uses to add jobs and to see what became of them. It talks to the HTTP
 * API of any server of the list, moves to the next when one does not answer, and keeps no state that a
 * crash could lose: a promise that has resolved is in the database.
 */
import {
  type CalledRoute,
  type Duration,
  type Enqueued,
  type Job,
  type JobState,
  type JobWithAttempts,
  type Pause,
  type Queue,
  ROUTES,
  type RouteAnswer,
  type Server,
  type Stats,
  type Worker,
} from '@drover/protocol';
import type { AnyJobDefinition, JobDefinition } from '../define-job.js';
import { type EnqueueOptions, encodeJob, type JobReference, jobText, type PayloadArguments } from '../encode-job.js';
import { durationOption, integerOption, MAX_TIMER_MS, refuse, refuseUnknownOptions } from '../options.js';
import { givenToken, serverUrls } from '../server-urls.js';
import { enqueueInBulk, type JobToAdd } from './bulk.js';
import type { NewJobsRequest } from './call-stream.js';
import { Gatherer } from './gatherer.js';
import type { RequestText } from './http-transport.js';
import { JobHandle } from './job-handle.js';
import { Requester } from './requester.js';
import { Schedules } from './schedules.js';
import { type ResultOptions, waitForResult } from './wait-for-result.js';

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_RETRIES = 5;
const MAX_RETRIES = 100;

export type ClientOptions = {
  /** Base address of a server, or several (a list, or text with commas). Default: `DROVER_URL`, or this machine. */
  url?: string | readonly string[] | undefined;
  /** Default: `DROVER_TOKEN`. */
  token?: string | undefined;
  /** Limit for one call with all its tries. Default 30 s. */
  timeout?: Duration | undefined;
  /** Tries after the first. Default 5. */
  retries?: number | undefined;
};

export type JobFilter = {
  state?: JobState | readonly JobState[] | undefined;
  queue?: string | undefined;
  type?: string | undefined;
  tag?: string | undefined;
  createdAfter?: string | Date | undefined;
  createdBefore?: string | Date | undefined;
  finishedAfter?: string | Date | undefined;
  finishedBefore?: string | Date | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
};

export type JobPage<Payload = unknown, Result = unknown> = { items: Job<Payload, Result>[]; nextCursor: string | null };

/** With a definition it is about the jobs of its type. */
type FilterOfType = Omit<JobFilter, 'type'>;

type IdOrHandle<Result> = string | JobHandle<Result>;

export function createClient(options: ClientOptions = {}): Client {
  refuseUnknownOptions('createClient', options, ['url', 'token', 'timeout', 'retries']);
  const timeoutMs = durationOption('createClient', 'timeout', options.timeout, DEFAULT_TIMEOUT_MS);
  const range = { fallback: DEFAULT_RETRIES, min: 0, max: MAX_RETRIES };
  return new Client(
    new Requester({
      urls: serverUrls(options.url),
      token: givenToken(options.token),
      timeoutMs: Math.min(timeoutMs, MAX_TIMER_MS),
      retries: integerOption('createClient', 'retries', options.retries, range),
    }),
  );
}

export class Client {
  readonly schedules: Schedules;
  readonly #requester: Requester;
  readonly #gatherer: Gatherer;

  /** Use `createClient`. */
  constructor(requester: Requester) {
    this.#requester = requester;
    this.schedules = new Schedules(requester);
    this.#gatherer = new Gatherer((jobs, newJobs) => this.#sendJobs(jobs, newJobs));
  }

  /** Adds one job. When this resolves, the job is in the database. Concurrent calls share requests. */
  enqueue<Input, Result>(
    definition: JobDefinition<Input, Result, unknown, unknown>,
    ...rest: PayloadArguments<Input>
  ): Promise<JobHandle<Result>>;
  enqueue(type: string, payload?: unknown, options?: EnqueueOptions): Promise<JobHandle>;
  async enqueue(reference: JobReference, payload?: unknown, options?: EnqueueOptions): Promise<JobHandle> {
    const encoded = encodeJob(reference, payload, options);
    const job = encoded instanceof Promise ? await encoded : encoded;
    const { id, created } = await this.#gatherer.add(jobText(job), options?.id === undefined);
    return new JobHandle(id, created, job.definition);
  }

  /**
   * Adds many jobs, in their order. Up to 10,000 of them go in one request, which adds all or none; more are
   * split over several requests, and if one fails, those before it have been added.
   */
  enqueueMany<Input, Result>(
    definition: JobDefinition<Input, Result, unknown, unknown>,
    payloads: readonly NoInfer<Input>[],
  ): Promise<JobHandle<Result>[]>;
  enqueueMany(type: string, payloads: readonly unknown[]): Promise<JobHandle[]>;
  enqueueMany(jobs: readonly JobToAdd[]): Promise<JobHandle[]>;
  async enqueueMany(
    first: JobReference | readonly JobToAdd[],
    payloads: readonly unknown[] = [],
  ): Promise<JobHandle[]> {
    const items = isList(first) ? first : payloads.map((payload) => ({ job: first, payload }));
    return await enqueueInBulk(items, (body, areNew) =>
      this.#sendBatch(body, areNew ? { mayBeAdded: false } : undefined),
    );
  }

  /** One job with its attempts. */
  get<Input, Result>(
    definition: JobDefinition<Input, Result, unknown, unknown>,
    id: string,
  ): Promise<JobWithAttempts<Input, Result>>;
  get<Result>(job: IdOrHandle<Result>): Promise<JobWithAttempts<unknown, Result>>;
  async get(job: IdOrHandle<unknown> | AnyJobDefinition, id?: string): Promise<JobWithAttempts> {
    const wanted = typeof job === 'string' || job instanceof JobHandle ? idOf(job) : id;
    return (await this.#requester.request({ method: 'GET', path: jobPath(wanted) })) as RouteAnswer<'getJob'>;
  }

  /** One page of jobs, newest first; of one type if its definition is given. */
  list<Input, Result>(
    definition: JobDefinition<Input, Result, unknown, unknown>,
    filter?: FilterOfType,
  ): Promise<JobPage<Input, Result>>;
  list(filter?: JobFilter): Promise<JobPage>;
  async list(first: JobFilter | AnyJobDefinition = {}, rest: FilterOfType = {}): Promise<JobPage> {
    const path = ROUTES.listJobs.path + queryText(filterOf(first, rest));
    return (await this.#requester.request({ method: 'GET', path })) as RouteAnswer<'listJobs'>;
  }

  /** All jobs that fit, page by page as the loop goes on. */
  listAll<Input, Result>(
    definition: JobDefinition<Input, Result, unknown, unknown>,
    filter?: FilterOfType,
  ): AsyncGenerator<Job<Input, Result>, void, undefined>;
  listAll(filter?: JobFilter): AsyncGenerator<Job, void, undefined>;
  async *listAll(
    first: JobFilter | AnyJobDefinition = {},
    rest: FilterOfType = {},
  ): AsyncGenerator<Job, void, undefined> {
    const filter = filterOf(first, rest);
    let { cursor } = filter;
    do {
      const page = await this.list({ ...filter, cursor });
      yield* page.items;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Ends a queued job at once; the handler of a running one is told to stop. */
  async cancel<Result>(job: IdOrHandle<Result>): Promise<Job<unknown, Result>> {
    return this.#change(job, 'cancel', ['cancelled']);
  }

  /** Gives a failed or cancelled job another attempt, or starts a waiting one now. */
  async retry<Result>(job: IdOrHandle<Result>): Promise<Job<unknown, Result>> {
    return this.#change(job, 'retry', ['ready', 'running']);
  }

  /** Ends an `unknown` job as failed, because somebody has found out that it did not do its work. */
  async fail<Result>(job: IdOrHandle<Result>, reason?: string): Promise<Job<unknown, Result>> {
    return this.#change(job, 'fail', ['failed'], reason === undefined ? undefined : JSON.stringify({ reason }));
  }

  async #change<Result>(
    job: IdOrHandle<Result>,
    verb: 'cancel' | 'retry' | 'fail',
    doneIn: readonly JobState[],
    body?: string,
  ): Promise<Job<unknown, Result>> {
    const path = `${jobPath(idOf(job))}/${verb}`;
    const changed = await this.#requester.request({ method: 'POST', path, body, doneIn });
    return (changed ?? (await this.get(job))) as Job<unknown, Result>;
  }

  /** Starts no more jobs of a queue, of a type, on a worker (by its id), or at all. What runs goes on. */
  async pause(what: PauseTarget, { note }: { note?: string | undefined } = {}): Promise<void> {
    const body = note === undefined ? undefined : JSON.stringify({ note });
    await this.#requester.request({ method: 'POST', path: `${pausePath(what)}/pause`, body });
  }

  async resume(what: PauseTarget): Promise<void> {
    await this.#requester.request({ method: 'POST', path: `${pausePath(what)}/resume` });
  }

  /** The queues, types, workers (by id) and, if so, the cluster that are paused. */
  async pauses(): Promise<Pause[]> {
    const answer = await this.#requester.request({ method: 'GET', path: ROUTES.listPauses.path });
    return (answer as RouteAnswer<'listPauses'>).items;
  }

  /**
   * Waits for the job's end and gives its result. Throws `JobFailedError`, `JobCancelledError`, or
   * `TimeoutError` when the wait's own `timeout` has passed (the job goes on).
   */
  result<Result>(job: IdOrHandle<Result>, options?: ResultOptions): Promise<Result>;
  result<Input, Result>(
    definition: JobDefinition<Input, Result, unknown, unknown>,
    id: string,
    options?: ResultOptions,
  ): Promise<Result>;
  result<Result>(
    job: IdOrHandle<Result> | JobDefinition<unknown, Result, unknown, unknown>,
    second?: string | ResultOptions,
    third?: ResultOptions,
  ): Promise<Result> {
    if (typeof job !== 'string' && !(job instanceof JobHandle)) {
      return waitForResult(this.#requester, idOf(second as string), job, third ?? {});
    }
    const definition = typeof job === 'string' ? undefined : JobHandle.definitionOf(job);
    return waitForResult(this.#requester, idOf(job), definition, (second as ResultOptions | undefined) ?? {});
  }

  async queues(): Promise<Queue[]> {
    const answer = await this.#requester.request({ method: 'GET', path: ROUTES.listQueues.path });
    return (answer as RouteAnswer<'listQueues'>).items;
  }

  async stats(): Promise<Stats> {
    return (await this.#requester.request({ method: 'GET', path: ROUTES.stats.path })) as Stats;
  }

  async workers(): Promise<Worker[]> {
    const answer = await this.#requester.request({ method: 'GET', path: ROUTES.listWorkers.path });
    return (answer as RouteAnswer<'listWorkers'>).items;
  }

  async servers(): Promise<Server[]> {
    const answer = await this.#requester.request({ method: 'GET', path: ROUTES.listServers.path });
    return (answer as RouteAnswer<'listServers'>).items;
  }

  /** Waits for the enqueues under way, then ends every connection; waits for results are given up. */
  async close(): Promise<void> {
    await this.#gatherer.whenIdle();
    this.#requester.close();
  }

  async #sendJobs(jobs: readonly string[], newJobs: NewJobsRequest | undefined): Promise<readonly Enqueued[]> {
    if (jobs.length === 1) return [(await this.#post('enqueueJob', jobs[0] as string, newJobs)) as Enqueued];
    return this.#sendBatch(`{"jobs":[\n${jobs.join(',\n')}\n]}`, newJobs);
  }

  async #sendBatch(body: RequestText, newJobs: NewJobsRequest | undefined): Promise<readonly Enqueued[]> {
    return ((await this.#post('enqueueJobs', body, newJobs)) as RouteAnswer<'enqueueJobs'>).items;
  }

  #post(route: CalledRoute, body: RequestText, newJobs: NewJobsRequest | undefined): Promise<unknown> {
    const { method, path } = ROUTES[route];
    return this.#requester.request({ method, path, body, call: route, newJobs });
  }
}

function isList(value: JobReference | readonly JobToAdd[]): value is readonly JobToAdd[] {
  return Array.isArray(value);
}

function filterOf(first: JobFilter | AnyJobDefinition, rest: FilterOfType): JobFilter {
  return 'encodedDefaults' in first ? { ...rest, type: first.type } : first;
}

function idOf(job: IdOrHandle<unknown>): string {
  return typeof job === 'string' ? job : job.id;
}

function jobPath(id: string | undefined): string {
  if (typeof id !== 'string' || id === '') return refuse('client', 'id', id, 'the id of a job');
  return `/api/v1/jobs/${encodeURIComponent(id)}`;
}

function queryText(filter: JobFilter): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue;
    query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query.size === 0 ? '' : `?${query}`;
}

/** What can be paused. */
export type PauseTarget = { queue: string } | { type: string } | { worker: string } | { cluster: true };

function pausePath(what: PauseTarget): string {
  if ('queue' in what) return `/api/v1/queues/${encodeURIComponent(what.queue)}`;
  if ('type' in what) return `/api/v1/types/${encodeURIComponent(what.type)}`;
  if ('worker' in what) return `/api/v1/workers/${encodeURIComponent(what.worker)}`;
  return '/api/v1/cluster';
}
