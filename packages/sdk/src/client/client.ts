/**
 * The client: applications use it to add jobs and to wait for results. It talks to the HTTP API of any server in the
 * list and moves to the next one when a server does not answer. It keeps no state that a crash could lose: when a
 * call resolves, its effect is in the database.
 */
import {
  type Duration,
  type JobState,
  type JobType,
  type JobTypeWithSchema,
  type LargeJobPart,
  type ListAuditInput,
  type ListedJob,
  type Pause,
  type Queue,
  type RouteAnswer,
  type Server,
  type Stats,
  type Worker,
  writeBulk,
} from '@drover/protocol';
import { MAX_TIMER_MS } from '@drover/protocol/within';
import { definitionOf, encodeJob, jobsToAdd } from '../encode-job.js';
import type { JobDefinition, JobReference, JobsToAdd, JobToAdd, PayloadArguments } from '../job-definition.js';
import { type Logger, stderrLogger } from '../logger.js';
import { durationOption, integerOption, refuse, refuseUnknownOptions } from '../options.js';
import { givenToken, serverUrls } from '../server-urls.js';
import { TLS_OPTION_NAMES, type TlsOptions, tlsSources } from '../tls.js';
import { isWorkflowDefinition, type WorkflowDefinition } from '../workflow/workflow-definition.js';
import { Api } from './api.js';
import { enqueueInBulk } from './bulk.js';
import { Gatherer } from './gatherer.js';
import { type EnqueuedJob, enqueuedJob, JobHandle } from './job-handle.js';
import { Requester } from './requester.js';
import { type RunFilter, RunHandle, type RunPage, type StartOptions, startRun } from './runs.js';
import { Schedules } from './schedules.js';
import { Tokens } from './tokens.js';
import { Workflows } from './workflows.js';

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_RETRIES = 5;
const MAX_RETRIES = 100;

export type ClientOptions = TlsOptions & {
  /**
   * Base address of a server, or several (a list, or a string with commas). Default: `DROVER_URL`, or port 8420 of
   * this machine.
   */
  url?: string | readonly string[] | undefined;
  /** Default: `DROVER_TOKEN`. */
  token?: string | undefined;
  /** Limit for one call with all its tries. Default 30 s. */
  timeout?: Duration | undefined;
  /** Tries after the first. Default 5. */
  retries?: number | undefined;
  /** Any object with pino's methods. Default: warnings and errors as JSON lines on stderr. */
  logger?: Logger | undefined;
};

export type JobFilter = {
  state?: JobState | readonly JobState[] | undefined;
  queue?: string | undefined;
  type?: string | undefined;
  tag?: string | undefined;
  /** The first 6 or more characters of the id. */
  idPrefix?: string | undefined;
  /** The id of the job that added them. */
  parent?: string | undefined;
  /** The name of the schedule that added them. */
  schedule?: string | undefined;
  /** The id of the run of a workflow that they belong to. */
  run?: string | undefined;
  createdAfter?: string | Date | undefined;
  createdBefore?: string | Date | undefined;
  finishedAfter?: string | Date | undefined;
  finishedBefore?: string | Date | undefined;
  /** Parts that a list leaves out otherwise: payloads, results, progress, and the stacks of errors. */
  include?: readonly LargeJobPart[] | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
};

/** The input is optional where its type allows `undefined`. */
type StartArguments<Input> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: StartOptions]
  : [input: NoInfer<Input>, options?: StartOptions];

export type AuditPage = RouteAnswer<'listAudit'>;

export type JobPage = RouteAnswer<'listJobs'>;

/** What can be paused. */
export type PauseTarget = { queue: string } | { type: string } | { worker: string } | { cluster: true };

export function createClient(options: ClientOptions = {}): Client {
  refuseUnknownOptions('createClient', options, ['url', 'token', 'timeout', 'retries', 'logger', ...TLS_OPTION_NAMES]);
  const timeoutMs = durationOption('createClient', 'timeout', options.timeout, DEFAULT_TIMEOUT_MS);
  const range = { fallback: DEFAULT_RETRIES, min: 0, max: MAX_RETRIES };
  const requester = new Requester({
    urls: serverUrls(options.url),
    token: givenToken(options.token),
    tls: tlsSources('createClient', options),
    timeoutMs: Math.min(timeoutMs, MAX_TIMER_MS),
    retries: integerOption('createClient', 'retries', options.retries, range),
  });
  return new Client(new Api(requester, options.logger ?? stderrLogger));
}

export class Client {
  readonly schedules: Schedules;
  readonly tokens: Tokens;
  readonly workflows: Workflows;
  readonly #api: Api;
  readonly #gatherer: Gatherer;

  /** Use `createClient`. */
  constructor(api: Api) {
    this.#api = api;
    this.schedules = new Schedules(api);
    this.tokens = new Tokens(api);
    this.workflows = new Workflows(api);
    this.#gatherer = new Gatherer((jobs) => this.#api.addJobs(writeBulk(jobs)));
  }

  /** Adds one job. When this resolves, the job is in the database. Concurrent calls share requests. */
  async enqueue<Input, Result>(
    job: JobReference<Input, Result>,
    ...[payload, options]: PayloadArguments<Input>
  ): Promise<EnqueuedJob<Result>> {
    const definition = definitionOf(job);
    const encoded = encodeJob(definition, payload, options);
    const toAdd = encoded instanceof Promise ? await encoded : encoded;
    const created = await this.#gatherer.add(toAdd);
    return enqueuedJob(this.#api, { id: toAdd.id, created }, definition);
  }

  /**
   * Adds many jobs, in order. Up to 10,000 of them are sent in one request, which adds all or none. More are split
   * over several requests; if one fails, the jobs of the requests before it have been added.
   */
  enqueueMany<Input, Result>(
    job: JobReference<Input, Result>,
    payloads: readonly NoInfer<Input>[],
  ): Promise<EnqueuedJob<Result>[]>;
  enqueueMany<References extends readonly JobReference[]>(
    jobs: readonly [...JobsToAdd<References>],
  ): Promise<EnqueuedJob[]>;
  async enqueueMany(
    first: JobReference | readonly JobToAdd[],
    payloads: readonly unknown[] = [],
  ): Promise<EnqueuedJob[]> {
    const added = await enqueueInBulk(jobsToAdd(first, payloads), (body) => this.#api.addJobs(body));
    return added.map((job) => enqueuedJob(this.#api, job, job.definition));
  }

  /** A job by its id. With a definition, the result is typed and checked. Sends nothing. */
  job(id: string): JobHandle;
  job<Input, Result>(definition: JobDefinition<Input, Result>, id: string): JobHandle<Result>;
  job(first: string | JobDefinition, second?: string): JobHandle {
    const [id, definition] = typeof first === 'string' ? [first] : [second, first];
    if (typeof id !== 'string' || id === '') refuse('job', 'id', id, 'the id of a job');
    return new JobHandle(this.#api, id, definition);
  }

  /**
   * One page of jobs, newest first, as they are stored: payloads and results are not checked against a schema. A page
   * also ends at 4 MiB.
   */
  list(filter: JobFilter = {}): Promise<JobPage> {
    return this.#api.call('listJobs', { query: filter });
  }

  /** All matching jobs; fetches page after page. */
  async *listAll(filter: JobFilter = {}): AsyncGenerator<ListedJob, void, undefined> {
    let { cursor } = filter;
    do {
      const page = await this.list({ ...filter, cursor });
      yield* page.items;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  /**
   * Starts a run of a workflow. When this resolves, the run is in the database. A definition is registered at its first
   * start by this client. A name starts the latest version.
   */
  start(workflow: string, input?: unknown, options?: StartOptions): Promise<RunHandle>;
  // The compiler reports the errors of the last overload.
  start<Input, Output>(
    workflow: WorkflowDefinition<Input, Output>,
    ...[input, options]: StartArguments<Input>
  ): Promise<RunHandle<Output>>;
  async start(workflow: WorkflowDefinition | string, input?: unknown, options?: StartOptions): Promise<RunHandle> {
    if (typeof workflow !== 'string' && !isWorkflowDefinition(workflow)) {
      refuse('start', 'workflow', workflow, 'the return value of defineWorkflow, or a name');
    }
    return startRun(this.#api, this.workflows, { workflow, input, options });
  }

  /** A run by its id. With a definition, its output is typed. Sends nothing. */
  run(id: string): RunHandle;
  run<Input, Output>(workflow: WorkflowDefinition<Input, Output>, id: string): RunHandle<Output>;
  run(first: string | WorkflowDefinition, second?: string): RunHandle {
    const id = typeof first === 'string' ? first : second;
    if (typeof id !== 'string' || id === '') refuse('run', 'id', id, 'the id of a run');
    return new RunHandle(this.#api, id);
  }

  /** One page of runs, newest id first. */
  runs(filter: RunFilter = {}): Promise<RunPage> {
    return this.#api.call('listRuns', { query: filter });
  }

  /** Stops the start of jobs of a queue, of a type, on a worker (by its id), or everywhere. Running jobs continue. */
  async pause(what: PauseTarget, { note }: { note?: string | undefined } = {}): Promise<void> {
    const body = { note };
    if ('queue' in what) await this.#api.call('pauseQueue', { params: { name: what.queue }, body });
    else if ('type' in what) await this.#api.call('pauseType', { params: { name: what.type }, body });
    else if ('worker' in what) await this.#api.call('pauseWorker', { params: { id: what.worker }, body });
    else await this.#api.call('pauseCluster', { body });
  }

  async resume(what: PauseTarget): Promise<void> {
    if ('queue' in what) await this.#api.call('resumeQueue', { params: { name: what.queue } });
    else if ('type' in what) await this.#api.call('resumeType', { params: { name: what.type } });
    else if ('worker' in what) await this.#api.call('resumeWorker', { params: { id: what.worker } });
    else await this.#api.call('resumeCluster', {});
  }

  /** The paused queues, types and workers (by id), and the pause of the cluster if there is one. */
  async pauses(): Promise<Pause[]> {
    return (await this.#api.call('listPauses', {})).items;
  }

  /** The job types that workers have registered, with the defaults of jobs that are added by name. */
  async types(): Promise<JobType[]> {
    return (await this.#api.call('listTypes', {})).items;
  }

  /** One of them, with the JSON Schema of its payload. */
  type(name: string): Promise<JobTypeWithSchema> {
    return this.#api.call('getType', { params: { name } });
  }

  /** Forgets the definition of a type that no live worker offers. Returns whether there was one. */
  async forgetType(name: string): Promise<boolean> {
    return (await this.#api.call('forgetType', { params: { name } })).forgotten;
  }

  async queues(): Promise<Queue[]> {
    return (await this.#api.call('listQueues', {})).items;
  }

  stats(): Promise<Stats> {
    return this.#api.call('stats', {});
  }

  /** `idPrefix`: only those whose id begins with these 6 or more characters. */
  async workers({ idPrefix }: { idPrefix?: string | undefined } = {}): Promise<Worker[]> {
    return (await this.#api.call('listWorkers', { query: { idPrefix } })).items;
  }

  async servers(): Promise<Server[]> {
    return (await this.#api.call('listServers', {})).items;
  }

  /** One page of the audit trail, newest first. Needs the role `auditor`. */
  audit(filter: ListAuditInput = {}): Promise<AuditPage> {
    return this.#api.call('listAudit', { query: filter });
  }

  /** Waits for enqueues in progress, then closes every connection. Waits for results reject. */
  async close(): Promise<void> {
    await this.#gatherer.whenIdle();
    this.#api.close();
  }
}
