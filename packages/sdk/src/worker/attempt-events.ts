/**
 * What a worker tells its application about each attempt. Every attempt that starts is told of twice: `started`, and
 * exactly one of the other events when its handler has settled. The outcome is on its way to a server then; whether the
 * server still wants it is decided there. An event is made only for listeners.
 */
import { type JobError, type Outcome, runOfOptions } from '@drover/protocol';
import type { JobContext } from '../job-definition.js';
import type { Logger } from '../logger.js';
import type { Attempt } from './attempt.js';
import type { Emitter } from './emitter.js';
import { type Failure, THROWN } from './outcome.js';

/** One attempt of a job, with the names of a handler's context. */
export type AttemptInfo = Pick<
  JobContext,
  'id' | 'type' | 'queue' | 'attempt' | 'maxAttempts' | 'fence' | 'occurrence' | 'run'
> & {
  /** As it was sent: before the schema. */
  readonly payload: unknown;
};

/** An attempt whose handler has settled. */
export type EndedAttempt = AttemptInfo & { readonly runMs: number };

export type FailedAttempt = EndedAttempt & {
  /** The error that the handler threw. An isolated handler: one with the same name, message and stack. */
  readonly error: Error;
  /** When the next attempt may start. Undefined: there is none. A cancel or the expiry of the job may end it earlier. */
  readonly nextTryAt: Date | undefined;
  /** Whether the job has failed for good. */
  readonly isFinal: boolean;
};

export type AttemptEvents = {
  /** The handler is about to be called. */
  started: [attempt: AttemptInfo];
  succeeded: [attempt: EndedAttempt & { readonly result: unknown }];
  failed: [attempt: FailedAttempt];
  snoozed: [attempt: EndedAttempt & { readonly nextTryAt: Date }];
  cancelled: [attempt: EndedAttempt];
  /** Handed back because the worker stops. It uses up no attempt. */
  released: [attempt: AttemptInfo];
  /** The job is no longer this worker's: another one may run it. */
  lost: [attempt: AttemptInfo];
};

type Dependencies = { emitter: Emitter<AttemptEvents>; logger: Logger; now?: () => number };

/** Tells and logs the end of an attempt. Undefined: it has no outcome, because the job was lost. */
export function tellEnd(deps: Dependencies, attempt: Attempt, outcome: Outcome | undefined): void {
  const { emitter } = deps;
  switch (outcome?.kind) {
    case 'failed':
      tellFailure(deps, attempt, outcome);
      return;
    case 'succeeded':
      if (!emitter.hasListeners('succeeded')) return;
      emitter.emit('succeeded', { ...endOf(attempt, outcome), result: parsed(outcome.result) });
      return;
    case 'snoozed':
      if (!emitter.hasListeners('snoozed')) return;
      emitter.emit('snoozed', { ...endOf(attempt, outcome), nextTryAt: after(deps, outcome.inMs) });
      return;
    case 'cancelled':
      if (emitter.hasListeners('cancelled')) emitter.emit('cancelled', endOf(attempt, outcome));
      return;
    case 'released':
      if (emitter.hasListeners('released')) emitter.emit('released', infoOf(attempt));
      return;
    default:
      if (emitter.hasListeners('lost')) emitter.emit('lost', infoOf(attempt));
  }
}

function tellFailure(deps: Dependencies, attempt: Attempt, outcome: Failure): void {
  const { emitter, logger } = deps;
  const { id, type, queue, attempt: number, maxAttempts, lostAttempts = 0 } = attempt.assignment;
  // As the server decides it: attempts that were lost with their worker do not count.
  const isFinal = outcome.retryInMs === undefined || number - lostAttempts >= maxAttempts;
  const nextTryAt = isFinal ? undefined : after(deps, outcome.retryInMs ?? 0);
  const fields = {
    ...{ event: 'attempt.failed', jobId: id, jobType: type, queue, attempt: number, maxAttempts },
    error: `${outcome.error.name}: ${outcome.error.message}`,
    ...(nextTryAt === undefined ? { isFinal } : { nextTryAt: nextTryAt.toISOString() }),
  };
  if (isFinal) logger.error(fields, 'attempt failed; it was the last');
  else logger.warn(fields, 'attempt failed; the job is tried again');
  if (!emitter.hasListeners('failed')) return;
  const error = outcome[THROWN] instanceof Error ? outcome[THROWN] : errorFrom(outcome.error);
  emitter.emit('failed', { ...endOf(attempt, outcome), error, nextTryAt, isFinal });
}

export function infoOf({ assignment }: Attempt): AttemptInfo {
  const { id, type, queue, attempt, maxAttempts, fence, options, payload } = assignment;
  const { occurrence } = options ?? {};
  const run = runOfOptions(options ?? {});
  return { id, type, queue, attempt, maxAttempts, fence, occurrence, run, payload };
}

function endOf(attempt: Attempt, { runMs }: { runMs: number }): EndedAttempt {
  return { ...infoOf(attempt), runMs };
}

function after({ now = Date.now }: Dependencies, ms: number): Date {
  return new Date(now() + ms);
}

function parsed(result: string | undefined): unknown {
  return result === undefined ? undefined : JSON.parse(result);
}

/** From the description of an error: it was thrown in another process, or no Error was thrown. */
function errorFrom({ name, message, stack, code }: JobError): Error {
  const error = new Error(message);
  error.name = name;
  if (stack !== undefined) error.stack = stack;
  return code === undefined ? error : Object.assign(error, { code });
}
