/** Ties a job type to the function that does its work. */
import type { AnyJobDefinition, JobDefinition } from '../define-job.js';
import type { Snooze } from '../errors.js';
import { refuseUnknownOptions } from '../options.js';
import { moduleOption } from './isolation/attach-module.js';
import type { JobContext } from './job-context.js';

/** A handler whose types have been checked by `handle` and are no longer needed. */
export type JobHandler = {
  readonly definition: AnyJobDefinition;
  readonly run: (context: JobContext<unknown>) => unknown;
  /** Address of the module that exports it; an isolated handler is loaded from there by its process. */
  readonly module?: string | undefined;
  /** Address of a module that has to be loaded first, so that `module` can be. */
  readonly loader?: string | undefined;
};

export type HandleOptions = {
  /** `import.meta.url` of the module that exports this handler. A handler with `isolation` needs it. */
  module?: string | URL | undefined;
};

export function handle<Input, Result, Output, ResultInput>(
  definition: JobDefinition<Input, Result, Output, ResultInput>,
  run: (context: JobContext<Output>) => Promise<ResultInput | Snooze> | ResultInput | Snooze,
  options: HandleOptions = {},
): JobHandler {
  refuseUnknownOptions('handle', options, ['module']);
  const module = options.module === undefined ? undefined : moduleOption('handle', options.module);
  // Sound because the runner makes the context's payload with this very definition's schema.
  return { definition, run: run as (context: JobContext<unknown>) => unknown, module };
}
