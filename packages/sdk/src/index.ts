/** Define jobs and their handlers, add jobs, and ask for their results. Workers run with `@drover/sdk/worker`. */

export {
  type AuditEntry,
  type Backfilled,
  type Backoff,
  type BackoffInput,
  type Calendar,
  type CancelledJob,
  DroverError,
  type Duration,
  type ErrorCode,
  type Job,
  type JobError,
  type JobRun,
  type JobState,
  type JobType,
  type JobTypeWithSchema,
  type JobWithAttempts,
  type LargeJobPart,
  type ListAuditInput as AuditFilter,
  type ListedJob,
  type NewScheduleInput,
  type NewTokenInput,
  type NewWorkflow,
  type Occurrence,
  type Pause,
  type Preview,
  type Queue as QueueInfo,
  type RotateTokenInput,
  type Run,
  type RunState,
  type RunStep,
  type RunWithSteps,
  type Schedule,
  type Server as ServerInfo,
  type Stats,
  type Token,
  type TokenWithSecret,
  type Worker as WorkerInfo,
  type Workflow,
} from '@drover/protocol';
export {
  type AuditPage,
  type Client,
  type ClientOptions,
  createClient,
  type JobFilter,
  type JobPage,
  type PauseTarget,
} from './client/client.js';
export type { EnqueuedJob, JobHandle } from './client/job-handle.js';
export type { RunFilter, RunHandle, RunPage, StartOptions } from './client/runs.js';
export type { Schedules, Synced, SyncOptions } from './client/schedules.js';
export type { Tokens } from './client/tokens.js';
export type { ResultOptions } from './client/wait-for-result.js';
export type { WorkflowPage, Workflows, WorkflowWithDefinition } from './client/workflows.js';
export { type DefineJobOptions, defineJob, type HandleOptions, handle } from './define-job.js';
export {
  type DefineScheduleOptions,
  defineSchedule,
  type ScheduleDefinition,
  type ScheduledJobOptions,
  type ScheduleOptions,
} from './define-schedule.js';
export {
  ConnectionError,
  JobCancelledError,
  JobFailedError,
  PermanentError,
  RetryAfter,
  RunCancelledError,
  RunFailedError,
  type Snooze,
  snooze,
  TimeoutError,
} from './errors.js';
export type { IsolationInput, MemorySize, ProcessIsolationInput } from './isolation-option.js';
export type {
  EnqueueChild,
  EnqueueOptions,
  JobContext,
  JobDefaults,
  JobDefinition,
  JobLog,
  JobLogMethod,
  JobReference,
  JobToAdd,
  RunJob,
  RunnableJob,
} from './job-definition.js';
export type { LogFields, Logger } from './logger.js';
export type { FailedJob, FailureContext, RunOnFailure } from './on-failure.js';
export type { StandardSchema } from './standard-schema.js';
export { and, eq, exists, gt, gte, isIn, lt, lte, ne, not, or, type StepCondition } from './workflow/condition.js';
export { defineWorkflow } from './workflow/define-workflow.js';
export { type Each, each, type Given, type Ref, type Value } from './workflow/reference.js';
export type {
  DefineWorkflowOptions,
  JobStepHandle,
  MapOptions,
  StepBody,
  StepEdge,
  StepHandle,
  StepJobOptions,
  StepOptions,
  StepOrder,
  WorkflowContext,
  WorkflowDefinition,
} from './workflow/workflow-definition.js';
