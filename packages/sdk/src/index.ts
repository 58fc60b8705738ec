/** Define jobs, add them, and see what became of them. Handlers run with `@drover/sdk/worker`. */

export {
  type Backoff,
  type BackoffInput,
  DroverError,
  type Duration,
  type ErrorCode,
  type Job,
  type JobError,
  type JobState,
  type JobWithAttempts,
  type Pause,
  type Queue as QueueInfo,
  type Server as ServerInfo,
  type Stats,
  type Worker as WorkerInfo,
} from '@drover/protocol';
export type { JobToAdd } from './client/bulk.js';
export {
  type Client,
  type ClientOptions,
  createClient,
  type JobFilter,
  type JobPage,
  type PauseTarget,
} from './client/client.js';
export type { JobHandle } from './client/job-handle.js';
export type { ResultOptions } from './client/wait-for-result.js';
export { type DefineJobOptions, defineJob, type JobDefaults, type JobDefinition } from './define-job.js';
export type { EnqueueOptions } from './encode-job.js';
export {
  ConnectionError,
  JobCancelledError,
  JobFailedError,
  PermanentError,
  RetryAfter,
  type Snooze,
  snooze,
  TimeoutError,
} from './errors.js';
export type { StandardSchema } from './standard-schema.js';
export type { IsolationInput, MemorySize, ProcessIsolationInput } from './worker/isolation/isolation-option.js';
