/** Run jobs: `createWorker` inside an application, `runWorker` as a process. */
export type { LogFields, Logger } from '../logger.js';
export type { AttemptEvents, AttemptInfo, EndedAttempt, FailedAttempt } from './attempt-events.js';
export { type JobsOfOptions, jobsOf } from './isolation/jobs-of.js';
export type { OnLeaseLost, WorkerOptions } from './options.js';
export { runWorker } from './run-worker.js';
export { createWorker, type Worker, type WorkerEvents, type WorkerState } from './worker.js';
