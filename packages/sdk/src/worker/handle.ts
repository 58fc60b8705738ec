/** Ties a job type to the function that does its work. */
import type { AnyJobDefinition, JobDefinition } from '../define-job.js';
import type { Snooze } from '../errors.js';
import type { JobContext } from './job-context.js';

/** A handler whose types have been checked by `handle` and are no longer needed. */
export type JobHandler = {
  readonly definition: AnyJobDefinition;
  readonly run: (context: JobContext<unknown>) => unknown;
};

export function handle<Input, Result, Output, ResultInput>(
  definition: JobDefinition<Input, Result, Output, ResultInput>,
  run: (context: JobContext<Output>) => Promise<ResultInput | Snooze> | ResultInput | Snooze,
): JobHandler {
  // Sound because the runner makes the context's payload with this very definition's schema.
  return { definition, run: run as (context: JobContext<unknown>) => unknown };
}
