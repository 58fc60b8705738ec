/** One job by its id. `enqueue` returns it; `client.job(id)` makes it from a known id. */
import type { CancelledJob, Job, JobState, JobWithAttempts } from '@drover/protocol';
import type { JobDefinition } from '../job-definition.js';
import type { Api } from './api.js';
import { type ResultOptions, waitForResult } from './wait-for-result.js';

type ResultDefinition<Result> = JobDefinition<unknown, Result>;

export class JobHandle<Result = unknown> {
  readonly id: string;
  readonly #api: Api;
  readonly #definition: ResultDefinition<Result> | undefined;

  /** Use `client.enqueue` or `client.job`. */
  constructor(api: Api, id: string, definition: ResultDefinition<Result> | undefined) {
    this.#api = api;
    this.id = id;
    this.#definition = definition;
  }

  /**
   * Waits for the end of the job and returns its result. Throws `JobFailedError`, `JobCancelledError`, or
   * `TimeoutError` when the wait's own `timeout` has passed (the job continues).
   */
  result(options: ResultOptions = {}): Promise<Result> {
    return waitForResult(this.#api, this.id, this.#definition, options);
  }

  /** The job with its attempts, as it is stored: payload and result are not checked against a schema. */
  get(): Promise<JobWithAttempts> {
    return this.#api.call('getJob', { params: { id: this.id } });
  }

  /** Ends a queued job at once. Tells the handler of a running job to stop. A cancelled job stays as it is. */
  cancel(): Promise<CancelledJob> {
    return this.#api.call('cancelJob', { params: { id: this.id } });
  }

  /** Lets a failed or cancelled job run again, or starts a waiting one now. */
  retry(): Promise<Job> {
    return this.#change('retryJob', {}, ['ready', 'running']);
  }

  /** Marks an `unknown` job as failed, after a person has found that it did not do its work. */
  fail(reason?: string): Promise<Job> {
    return this.#change('failJob', { body: { reason } }, ['failed']);
  }

  /** `doneIn`: the states that show that an earlier try, whose answer was lost, has already made the change. */
  async #change(
    route: 'retryJob' | 'failJob',
    input: { body?: { reason: string | undefined } },
    doneIn: readonly JobState[],
  ): Promise<Job> {
    const changed = await this.#api.change(route, { params: { id: this.id }, ...input }, doneIn);
    return changed ?? (await this.get());
  }
}

/** What an enqueue returns. `created` is false if a job with this id existed already. */
export type EnqueuedJob<Result = unknown> = JobHandle<Result> & { readonly created: boolean; readonly type: string };

export function enqueuedJob<Result>(
  api: Api,
  { id, created }: { id: string; created: boolean },
  definition: ResultDefinition<Result>,
): EnqueuedJob<Result> {
  return Object.assign(new JobHandle(api, id, definition), { created, type: definition.type });
}
