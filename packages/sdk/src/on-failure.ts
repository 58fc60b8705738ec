/**
 * A function as the `onFailure` of a job is the handler of a job of its own, which the server adds when the first one has
 * failed for good. So it is run like any job: by any worker, repeated if it fails itself, also after a crash.
 */
import type { JobError } from '@drover/protocol';
import { type JobContext, plainDefinition, type RunnableJob } from './job-definition.js';

/** The job that has failed for good. */
export type FailedJob<Payload = unknown> = {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** Attempts that were used up. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly tags: readonly string[];
  readonly occurrence: JobContext['occurrence'] | null;
  /** As it was sent. It is not checked again: it may be why the job failed. */
  readonly payload: Payload;
};

/** The context of an `onFailure` handler. `id`, `attempt` and so on are those of its own job. */
export type FailureContext<Payload = unknown> = Omit<JobContext, 'payload'> & {
  readonly job: FailedJob<Payload>;
  readonly error: JobError;
};

export type RunOnFailure<Payload = unknown> = (context: FailureContext<Payload>) => unknown;

/** The type of the job that runs a function given as `onFailure`. */
export function followerType(type: string): string {
  return `${type}/on-failure`;
}

export function followerOf(type: string, onFailure: RunOnFailure<never>): RunnableJob {
  // Sound: the payload has the type that its author declared.
  const run = onFailure as RunOnFailure;
  return Object.freeze({
    ...plainDefinition(type),
    run: (context: JobContext<FollowerPayload>) => run(failureContext(context)),
  });
}

/** What the server sends: see lifecycle/finish there. */
type FollowerPayload = { job: FailedJob & { error: JobError } };

function failureContext(context: JobContext<FollowerPayload>): FailureContext {
  const { error, ...job } = context.payload.job;
  const { id, type, queue, attempt, maxAttempts, fence, idempotencyKey } = context;
  return {
    ...{ job, error, id, type, queue, attempt, maxAttempts, fence, idempotencyKey, occurrence: context.occurrence },
    ...{
      run: context.run,
      signal: context.signal,
      log: context.log,
      progress: context.progress,
      enqueue: context.enqueue,
    },
  };
}
