/**
 * Runs one attempt: checks the payload, calls the handler, keeps the time limit, creates the outcome. Short jobs are
 * the hot path; a timer, a signal or a logger is created only for an attempt that needs it.
 *
 * Invariant: an outcome is created only after the handler has settled. A handler that ignores its signal keeps its
 * slot and its job; an earlier report would let two attempts overlap.
 */
import { LIMITS, type Outcome } from '@drover/protocol';
import { Snooze } from '../errors.js';
import { JOB, type JobContext, type RunnableJob } from '../job-definition.js';
import { toJson } from '../json.js';
import type { Logger } from '../logger.js';
import { type StandardSchema, validate } from '../standard-schema.js';
import type { Attempt } from './attempt.js';
import { AttemptContext, type ContextServices } from './attempt-context.js';
import { IsolatedRunner } from './isolation/isolated-runner.js';
import { type Ending, outcomeOfError, outcomeOfInvalidPayload, outcomeOfReturn, type Returned } from './outcome.js';
import { limitTime } from './time-limit.js';

const MICROSECONDS = 1000;

export type RunnerOptions = {
  jobs: readonly RunnableJob[];
  services: ContextServices;
  logger: Logger;
  /** The most attempts that run at once. */
  slots?: number;
  /** The program of isolated handlers' processes. */
  processMain?: URL;
  now?: () => number;
  random?: () => number;
  /** Whether the lease allows an isolated handler to start now. Default: always. */
  mayStart?: () => boolean;
};

export class Runner {
  /** Runs the handlers with their own processes. Undefined if there are none. */
  readonly isolated: IsolatedRunner | undefined;
  readonly #jobs: ReadonlyMap<string, RunnableJob>;
  readonly #services: ContextServices;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #random: () => number;

  constructor(options: RunnerOptions) {
    this.#jobs = new Map(options.jobs.map((job) => [job.type, job]));
    this.#services = options.services;
    this.#logger = options.logger;
    this.#now = options.now ?? (() => performance.now());
    this.#random = options.random ?? Math.random;
    if (options.jobs.some((job) => job[JOB].isolation !== undefined)) {
      const { services, logger, slots = LIMITS.workerSlots, processMain, mayStart } = options;
      this.isolated = new IsolatedRunner({
        services,
        logger,
        slots,
        processMain,
        mayStart,
        now: this.#now,
        random: this.#random,
      });
    }
  }

  /** Ends the processes of isolated handlers. Resolves when none is left. */
  async stop(): Promise<void> {
    await this.isolated?.stop();
  }

  /** Never rejects. No outcome means that the job is no longer ours to report. */
  async run(attempt: Attempt): Promise<Outcome | undefined> {
    const { assignment } = attempt;
    const job = this.#jobs.get(assignment.type);
    if (job === undefined) return { id: assignment.id, fence: assignment.fence, kind: 'released' };
    if (this.isolated !== undefined && job[JOB].isolation !== undefined) {
      return this.isolated.run(attempt, job);
    }
    const startedAt = this.#now();
    const timeoutMs = assignment.options?.timeout;
    const clock = timeoutMs === undefined ? undefined : limitTime(attempt, timeoutMs, () => this.#warnOverdue(attempt));
    try {
      const checked = this.#checkPayload(job, attempt);
      const context = checked instanceof Promise ? await checked : checked;
      if (!(context instanceof AttemptContext)) {
        // A newer grant may have arrived during an asynchronous schema check; an outcome of this one would hide it.
        if (attempt.stopReason === 'lost') return undefined;
        return outcomeOfInvalidPayload(assignment, this.#since(startedAt), context.mismatch);
      }
      // Sound: the payload comes from this definition's schema, or has the type that its author declared.
      const run = job.run as (context: JobContext) => unknown;
      const value = await run(context);
      if (attempt.checksUnderWay !== undefined) await Promise.all(attempt.checksUnderWay);
      const checking = resultOf(job, value);
      const returned = checking instanceof Promise ? await checking : checking;
      return outcomeOfReturn(this.#ending(attempt, startedAt), returned, attempt.children);
    } catch (error) {
      return outcomeOfError(this.#ending(attempt, startedAt), error);
    } finally {
      attempt.isSettled = true;
      if (clock !== undefined) clock.stop();
    }
  }

  #checkPayload({ payload: schema }: RunnableJob, attempt: Attempt): Checked | Promise<Checked> {
    const { payload } = attempt.assignment;
    if (schema === undefined) return new AttemptContext(payload, attempt, this.#services);
    try {
      const output = validatePayload(schema, payload);
      if (!(output instanceof Promise)) return new AttemptContext(output, attempt, this.#services);
      return output.then(
        (value) => new AttemptContext(value, attempt, this.#services),
        (mismatch: unknown) => ({ mismatch }),
      );
    } catch (mismatch) {
      return { mismatch };
    }
  }

  #warnOverdue({ assignment }: Attempt): void {
    const fields = { jobId: assignment.id, jobType: assignment.type, timeoutMs: assignment.options?.timeout };
    this.#logger.warn(
      { event: 'handler.overdue', ...fields },
      'handler still runs after its timeout and keeps its slot',
    );
  }

  #ending(attempt: Attempt, startedAt: number): Ending {
    const { assignment, stopReason } = attempt;
    return { assignment, runMs: this.#since(startedAt), stopReason, random: this.#random() };
  }

  #since(startedAt: number): number {
    return Math.round((this.#now() - startedAt) * MICROSECONDS) / MICROSECONDS;
  }
}

type Checked = AttemptContext | { mismatch: unknown };

/** The result as JSON, checked by its schema, if there is one. Returns a promise only if the schema is asynchronous. */
function resultOf({ result: schema }: RunnableJob, value: unknown): Returned | Promise<Returned> {
  if (Snooze.isOne(value)) return { snooze: value };
  try {
    const json = toJson(value, 'result');
    const returned = { result: value === undefined ? undefined : json.text };
    const checked = schema === undefined ? undefined : validate(schema, json.value, 'result', value);
    if (!(checked instanceof Promise)) return returned;
    return checked.then(
      () => returned,
      (mismatch: unknown) => ({ mismatch }),
    );
  } catch (mismatch) {
    return { mismatch };
  }
}

/**
 * A payload that was omitted at the enqueue arrives as null, but a schema with an optional payload expects undefined.
 */
function validatePayload(schema: StandardSchema, payload: unknown): unknown {
  if (payload !== null) return validate(schema, payload, 'payload');
  try {
    const output = validate(schema, null, 'payload');
    return output instanceof Promise ? output.catch(() => validate(schema, undefined, 'payload')) : output;
  } catch {
    // the error for undefined says the same: something is missing
    return validate(schema, undefined, 'payload');
  }
}
