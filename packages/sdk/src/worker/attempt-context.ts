/**
 * The context of one attempt's handler. Everything except the payload is created on first use, so a job that only
 * reads its payload pays for nothing else.
 */
import { DroverError, LIMITS, type NewJob, runOfOptions } from '@drover/protocol';
import { checkPayload, definitionOf, encodeChecked, jobText } from '../encode-job.js';
import type {
  EnqueueChild,
  EnqueueOptions,
  JobContext,
  JobLog,
  JobLogMethod,
  JobReference,
} from '../job-definition.js';
import { toJson } from '../json.js';
import type { LogFields, Logger } from '../logger.js';
import type { Attempt } from './attempt.js';

/** Its name in errors. `payload` is that of the running job. */
const CHILD_PAYLOAD = 'child.payload';

/** What a context needs from its worker. */
export type ContextServices = {
  readonly logger: Logger;
  reportProgress(attempt: Attempt, value: string): void;
};

export class AttemptContext implements JobContext {
  readonly payload: unknown;
  readonly #attempt: Attempt;
  readonly #services: ContextServices;
  #log: JobLog | undefined;

  constructor(payload: unknown, attempt: Attempt, services: ContextServices) {
    this.payload = payload;
    this.#attempt = attempt;
    this.#services = services;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  get id(): string {
    return this.#attempt.assignment.id;
  }

  get type(): string {
    return this.#attempt.assignment.type;
  }

  get queue(): string {
    return this.#attempt.assignment.queue;
  }

  get attempt(): number {
    return this.#attempt.assignment.attempt;
  }

  get maxAttempts(): number {
    return this.#attempt.assignment.maxAttempts;
  }

  get fence(): number {
    return this.#attempt.assignment.fence;
  }

  get idempotencyKey(): string {
    return this.#attempt.assignment.id;
  }

  get occurrence(): JobContext['occurrence'] {
    return this.#attempt.assignment.options?.occurrence;
  }

  get run(): JobContext['run'] {
    return runOfOptions(this.#attempt.assignment.options ?? {});
  }

  get log(): JobLog {
    this.#log ??= jobLog(this.#services.logger, this.#attempt);
    return this.#log;
  }

  get progress(): (value: unknown) => void {
    return (value) => {
      const { text } = toJson(value, 'progress');
      if (text.length > LIMITS.progressBytes) {
        throw new DroverError(
          'invalid_request',
          `progress: expected at most ${LIMITS.progressBytes} characters of JSON, got ${text.length}`,
        );
      }
      if (!this.#attempt.isSettled) this.#services.reportProgress(this.#attempt, text);
    };
  }

  get enqueue(): EnqueueChild {
    return (reference: JobReference, payload?: unknown, options?: EnqueueOptions) =>
      addChild(this.#attempt, reference, payload, options);
  }
}

function addChild(
  attempt: Attempt,
  reference: JobReference,
  payload: unknown,
  options: EnqueueOptions | undefined,
): { id: string } {
  if (attempt.isSettled) {
    throw new DroverError('wrong_state', `job ${attempt.assignment.id} has ended and cannot enqueue more children`);
  }
  attempt.children ??= [];
  if (attempt.children.length >= LIMITS.childrenPerJob) {
    throw new DroverError('batch_too_large', `expected at most ${LIMITS.childrenPerJob} children per job`);
  }
  const definition = definitionOf(reference);
  const json = toJson(payload, CHILD_PAYLOAD);
  const checked = checkPayload(definition, json, payload, CHILD_PAYLOAD);
  const child = encodeChecked(definition, json, options);
  // A parsed copy, so that later changes of the payload by the handler have no effect.
  attempt.children.push(JSON.parse(jobText(child)) as NewJob);
  if (checked instanceof Promise) awaitCheck(attempt, checked);
  return { id: child.id };
}

function awaitCheck(attempt: Attempt, checked: Promise<unknown>): void {
  // The runner awaits it and fails the attempt. Until then an unhandled rejection must not end the process.
  checked.catch(() => {});
  attempt.checksUnderWay ??= [];
  attempt.checksUnderWay.push(checked);
}

function jobLog(logger: Logger, attempt: Attempt): JobLog {
  const { id, type, queue, attempt: number } = attempt.assignment;
  const jobFields = { jobId: id, jobType: type, queue, attempt: number };
  const method =
    (level: keyof Logger): JobLogMethod =>
    (first: string | LogFields, message?: string) => {
      if (typeof first === 'string') logger[level](jobFields, first);
      else logger[level]({ ...jobFields, ...first }, message ?? '');
    };
  return { debug: method('debug'), info: method('info'), warn: method('warn'), error: method('error') };
}
