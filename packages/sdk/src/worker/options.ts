/** A worker's options in two stages: as given, and checked with every default filled in. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import {
  DroverError,
  type Duration,
  invalidInput,
  LIMITS,
  newId,
  STREAM_VERSION,
  workerMessageSchema,
} from '@drover/protocol';
import { isJobDefinition, isRunnableJob, JOB, type RunnableJob } from '../job-definition.js';
import type { Logger } from '../logger.js';
import { stderrHandlerLogger, stderrLogger } from '../logger.js';
import {
  booleanOption,
  choiceOption,
  durationOption,
  integerOption,
  kindOf,
  refuse,
  refuseShown,
  refuseUnknownOptions,
} from '../options.js';
import { givenToken, serverUrls } from '../server-urls.js';
import { TLS_OPTION_NAMES, type TlsOptions, type TlsSources, tlsSources } from '../tls.js';
import { SDK_VERSION } from '../version.js';
import { isIsolatedProcess } from './isolation/inside.js';
import type { WorkerIdentity } from './link/messages.js';
import { AdaptivePrefetch, fixedPrefetch, type Prefetch } from './prefetch.js';
import { typeDefinitions } from './type-definitions.js';

const DEFAULT_SLOTS = 10;
const DEFAULT_DRAIN_MS = 30_000;
const RESUME_KEY_BYTES = 32;

const ON_LEASE_LOST = ['exit', 'abort'] as const;
export type OnLeaseLost = (typeof ON_LEASE_LOST)[number];

export type WorkerOptions = TlsOptions & {
  /** Jobs with their handlers, one per type: from `defineJob` with `run`, or from `handle`. */
  jobs: readonly RunnableJob[];
  /** Base address of a server, or several. Default: `DROVER_URL`, or port 8420 of this machine. */
  url?: string | readonly string[] | undefined;
  /** Default: `DROVER_TOKEN`. */
  token?: string | undefined;
  /** Handlers that run at once. Default 10. */
  slots?: number | undefined;
  /** Default: every queue. */
  queues?: readonly string[] | undefined;
  /** Shown in the dashboard and the CLI. Default: `pid@host`. */
  name?: string | undefined;
  /** Assignments held beyond the slots. Default: as many as hide the round trip to the server. */
  prefetch?: 'adaptive' | number | undefined;
  /** How long `stop()` waits for running jobs before their signals are aborted. Default 30 s. */
  drainTimeout?: Duration | undefined;
  /**
   * What to do when the lease could not be confirmed in time, the signals of jobs that others may now start were
   * aborted, and a handler in this process still runs: `exit` ends the process, `abort` only leaves the signal
   * aborted. Default: `exit` for `runWorker`, whose process belongs to the worker; otherwise `abort`.
   */
  onLeaseLost?: OnLeaseLost | undefined;
  /**
   * A folder for this worker alone, kept over restarts. The journal in it records which jobs were started and how
   * they ended, so that the next start delivers what this one could not. Default: no journal.
   */
  journalDir?: string | undefined;
  /** Sets a damaged journal aside and continues with its readable part. Default: the worker does not start. */
  discardDamagedJournal?: boolean | undefined;
  /** Keeps working while this worker, its queues, its job types or the cluster are paused. Default: no. */
  ignorePause?: boolean | undefined;
  /**
   * Any object with pino's methods. Default: warnings and errors as JSON lines on stderr, and what handlers log from
   * `info` on.
   */
  logger?: Logger | undefined;
};

export type ReadyWorkerOptions = {
  jobs: readonly RunnableJob[];
  urls: readonly string[];
  token: string | undefined;
  tls: TlsSources;
  slots: number;
  prefetch: Prefetch;
  drainTimeoutMs: number;
  /** Undefined: depends on how the worker is started. */
  onLeaseLost: OnLeaseLost | undefined;
  journalDir: string | undefined;
  discardDamagedJournal: boolean;
  logger: Logger;
  /** Behind the `log` of handlers. */
  handlerLogger: Logger;
  /** The part of the registration that is the same for all connections. */
  identity: WorkerIdentity;
};

const OPTION_NAMES = [
  'jobs',
  'url',
  'token',
  ...TLS_OPTION_NAMES,
  'slots',
  'queues',
  'name',
  'prefetch',
  'drainTimeout',
  'onLeaseLost',
  'journalDir',
  'discardDamagedJournal',
  'ignorePause',
  'logger',
] as const;

export function readyWorkerOptions(options: WorkerOptions): ReadyWorkerOptions {
  const where = 'createWorker';
  refuseUnknownOptions(where, options, OPTION_NAMES);
  const { prefetch = 'adaptive' } = options;
  checkJobs(where, options.jobs);
  const jobs = options.jobs.flatMap(withFollower);
  const logger = options.logger ?? stderrLogger;
  const slots = integerOption(where, 'slots', options.slots, {
    fallback: DEFAULT_SLOTS,
    min: 1,
    max: LIMITS.workerSlots,
  });
  const prefetchRange = { fallback: 0, min: 0, max: LIMITS.prefetch };
  return {
    jobs,
    urls: serverUrls(options.url),
    token: givenToken(options.token),
    tls: tlsSources(where, options),
    slots,
    prefetch:
      prefetch === 'adaptive'
        ? new AdaptivePrefetch(slots)
        : fixedPrefetch(integerOption(where, 'prefetch', prefetch, prefetchRange)),
    drainTimeoutMs: durationOption(where, 'drainTimeout', options.drainTimeout, DEFAULT_DRAIN_MS),
    onLeaseLost: choiceOption(where, 'onLeaseLost', options.onLeaseLost, ON_LEASE_LOST),
    journalDir: folderOption(where, 'journalDir', options.journalDir),
    discardDamagedJournal: booleanOption(where, 'discardDamagedJournal', options.discardDamagedJournal) ?? false,
    logger,
    handlerLogger: options.logger ?? stderrHandlerLogger,
    identity: identityOf(options, slots, jobs, logger),
  };
}

function checkJobs(where: string, jobs: readonly RunnableJob[]): void {
  if (isIsolatedProcess()) {
    throw new DroverError(
      'wrong_state',
      `${where}: cannot start a worker in the process of an isolated handler; export the job from a module that starts no worker`,
    );
  }
  if (!Array.isArray(jobs)) refuse(where, 'jobs', jobs, 'a list of jobs with handlers');
  if (jobs.length === 0) refuseShown(where, 'jobs', 'an empty list', 'at least one job with a handler');
  for (const [index, job] of jobs.entries()) checkJob(where, job, `jobs[${index}]`);
}

/** A job and the one that runs its `onFailure`. */
function withFollower(job: RunnableJob): RunnableJob[] {
  const { follower } = job[JOB];
  return follower === undefined ? [job] : [job, follower];
}

function checkJob(where: string, job: unknown, place: string): void {
  if (!isRunnableJob(job)) {
    const shown = isJobDefinition(job) ? `the definition of "${job.type}" without a handler` : kindOf(job);
    refuseShown(where, place, shown, 'a job with a handler: defineJob with run, or handle(definition, run)');
  }
  const { isolation, module } = job[JOB];
  if (isolation === undefined || module !== undefined) return;
  refuse(
    where,
    `${place}.module`,
    module,
    `the option module of the isolated job "${job.type}": import.meta.url, or __filename in CommonJS`,
  );
}

function folderOption(where: string, name: string, value: unknown): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value;
  return refuse(where, name, value, 'the path of a folder');
}

function typesOf(jobs: readonly RunnableJob[]): string[] {
  const types = jobs.map(({ type }) => type);
  const repeated = types.find((type, index) => types.indexOf(type) !== index);
  if (repeated !== undefined) {
    refuseShown('createWorker', 'jobs', `two for "${repeated}"`, 'one handler for each job type');
  }
  return types;
}

/** Checked here with the protocol's own schema, so that no server refuses it later. */
function identityOf(
  options: WorkerOptions,
  slots: number,
  jobs: readonly RunnableJob[],
  logger: Logger,
): ReadyWorkerOptions['identity'] {
  const host = hostname();
  const types = typesOf(jobs);
  const ignorePause = booleanOption('createWorker', 'ignorePause', options.ignorePause);
  const identity = {
    kind: 'hello' as const,
    version: STREAM_VERSION,
    // New for each worker and kept over its reconnects: a restarted process is another worker.
    sessionId: newId(),
    resumeKey: randomBytes(RESUME_KEY_BYTES).toString('base64url'),
    name: options.name ?? `${process.pid}@${host}`.replace(/[^A-Za-z0-9_.:/@-]/g, '_').slice(0, LIMITS.nameLength),
    host: host.slice(0, LIMITS.nameLength * 2),
    pid: process.pid,
    sdk: `node/${SDK_VERSION}`,
    types,
    definitions: typeDefinitions(jobs, logger),
    ...(options.queues === undefined ? {} : { queues: [...options.queues] }),
    slots,
    ...(ignorePause === true ? { ignorePause } : {}),
  };
  const parsed = workerMessageSchema.safeParse({ ...identity, connection: 1, window: 0, holds: [] });
  if (parsed.success) return identity;
  const { message, details } = invalidInput(parsed.error, identity);
  throw new DroverError('invalid_request', `createWorker: ${message}`, details);
}
