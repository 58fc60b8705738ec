/** Run the handlers of jobs: `handle`, `createWorker`, `runWorker`. */
export type { LogFields, Logger } from '../logger.js';
export { type HandleOptions, handle, type JobHandler } from './handle.js';
export { type AttachOptions, attachModule, handlersOf } from './isolation/attach-module.js';
export type { EnqueueChild, JobContext, JobLog, JobLogMethod } from './job-context.js';
export type { WorkerOptions } from './options.js';
export { runWorker } from './run-worker.js';
export { createWorker, type Worker, type WorkerEvents, type WorkerState } from './worker.js';
