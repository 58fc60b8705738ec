/**
 * Turns the end of a handler into the outcome to report. Pure: the caller provides the random number.
 *
 * The rules, in this order:
 * 1. A job that is no longer ours (`lost`) has no outcome.
 * 2. Past its time (`timeout`, `expired`) an attempt has failed, whatever it returned.
 * 3. A handler that returns has done its work, also after a cancel.
 * 4. A handler that throws after a cancel was cancelled.
 * 5. A handler that throws because its lease could not be confirmed was lost; the server may start it again.
 * 6. Otherwise the error decides: no retry, a retry at the time it names, or a retry after the back-off.
 */
import {
  type Assignment,
  backoffDelayMs,
  DEFAULT_BACKOFF,
  DroverError,
  type Grant,
  type JobError,
  LIMITS,
  type NewJob,
  type Outcome,
} from '@drover/protocol';
import { PermanentError, RetryAfter, Snooze } from '../errors.js';
import type { StopReason } from './attempt.js';
import { ProcessError } from './isolation/process-error.js';

/** Causes of an error that are shown below its stack. */
const MAX_CAUSES = 5;

/** Known of every attempt that has ended. */
export type Ending = {
  assignment: Assignment;
  runMs: number;
  stopReason: StopReason | undefined;
  /** In [0, 1), for the jitter of the back-off. */
  random: number;
};

/** What a handler returned: `snooze()`, a result as JSON, or a result that cannot be sent or does not match its schema. */
export type Returned = { snooze: Snooze } | { result: string | undefined } | { mismatch: unknown };

/** The outcome of a handler that returned. Undefined if the job is no longer ours. */
export function outcomeOfReturn(
  ending: Ending,
  returned: Returned,
  children: NewJob[] | undefined,
): Outcome | undefined {
  const stopped = outcomeOfStop(ending);
  if (stopped !== 'as it ended') return stopped;
  const { assignment, runMs } = ending;
  const { id, fence } = assignment;
  if ('snooze' in returned) return { id, fence, kind: 'snoozed', runMs, inMs: returned.snooze.delayMs };
  if ('mismatch' in returned) return failure(assignment, runMs, returned.mismatch, 'invalid_result');
  const outcome: Outcome = { id, fence, kind: 'succeeded', runMs };
  if (returned.result !== undefined) outcome.result = returned.result;
  if (children !== undefined && children.length > 0) outcome.children = children;
  return outcome;
}

/** The outcome of a handler that threw. Undefined if the job is no longer ours. */
export function outcomeOfError(ending: Ending, error: unknown): Outcome | undefined {
  const stopped = outcomeOfStop(ending, error);
  if (stopped !== 'as it ended') return stopped;
  const { assignment, runMs, stopReason } = ending;
  const { id, fence } = assignment;
  if (stopReason === 'cancelled') return { id, fence, kind: 'cancelled', runMs };
  if (Snooze.isOne(error)) return { id, fence, kind: 'snoozed', runMs, inMs: error.delayMs };
  if (PermanentError.isOne(error)) return failure(assignment, runMs, error, 'permanent');
  if (RetryAfter.isOne(error)) return failure(assignment, runMs, error, undefined, error.delayMs);
  // It stopped because the worker shuts down. The job is not at fault, so it is handed back and uses up no attempt.
  if (stopReason === 'shutdown') return { id, fence, kind: 'released', runMs };
  if (stopReason === 'unconfirmed') return { id, fence, kind: 'lost' };
  const code = error instanceof ProcessError ? error.code : undefined;
  return failure(assignment, runMs, error, code, backoffOf(ending));
}

/** The outcome of an attempt whose payload does not match; its handler was not called. */
export function outcomeOfInvalidPayload(assignment: Assignment, runMs: number, error: unknown): Outcome {
  return failure(assignment, runMs, error, error instanceof DroverError ? 'invalid_payload' : undefined);
}

/** Where a failed outcome keeps what was thrown, for listeners in this process. JSON leaves it out. */
export const THROWN: unique symbol = Symbol('thrown');

export type Failure = Extract<Outcome, { kind: 'failed' }> & { [THROWN]?: unknown };

/** A failed outcome. Without `retryInMs` the failure is final. */
export function failure(
  { id, fence }: Grant,
  runMs: number,
  error: unknown,
  code: string | undefined,
  retryInMs?: number,
): Failure {
  const outcome: Failure = { id, fence, kind: 'failed', runMs, error: describeError(error, code), [THROWN]: error };
  if (retryInMs !== undefined) outcome.retryInMs = retryInMs;
  return outcome;
}

/** The outcome that a stop decides, however the handler ended. */
function outcomeOfStop(ending: Ending, cause?: unknown): Outcome | undefined | 'as it ended' {
  const { assignment, runMs, stopReason } = ending;
  switch (stopReason) {
    case 'lost':
      return undefined;
    case 'expired':
      return failure(assignment, runMs, new Error('the job expired while it ran', { cause }), 'expired');
    case 'timeout': {
      const error = new Error(`the attempt took longer than its timeout of ${assignment.options?.timeout} ms`, {
        cause,
      });
      return failure(assignment, runMs, error, 'timeout', backoffOf(ending));
    }
    default:
      return 'as it ended';
  }
}

function backoffOf({ assignment, random }: Ending): number {
  return backoffDelayMs(assignment.options?.backoff ?? DEFAULT_BACKOFF, assignment.attempt, random);
}

function describeError(error: unknown, code: string | undefined): JobError {
  const isError = error instanceof Error;
  const described: JobError = {
    name: isError ? clean(String(error.name), LIMITS.nameLength) : 'Error',
    message: clean(isError ? String(error.message) : describeThrown(error), LIMITS.errorMessageLength),
  };
  if (isError && error.stack) described.stack = clean(stackWithCauses(error), LIMITS.errorStackLength);
  if (code !== undefined) described.code = code;
  return described;
}

function describeThrown(value: unknown): string {
  try {
    return typeof value === 'string' ? value : `thrown: ${JSON.stringify(value) ?? String(value)}`;
  } catch {
    // A cycle, a BigInt or a throwing toString: only its kind can be shown.
    return `thrown: ${Object.prototype.toString.call(value)}`;
  }
}

function stackWithCauses(error: Error): string {
  let text = String(error.stack);
  let cause = error.cause;
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth++) {
    text += `\nCaused by: ${cause.stack ?? String(cause)}`;
    cause = cause.cause;
  }
  return text;
}

/** PostgreSQL text cannot contain NUL or half of a surrogate pair. */
function clean(text: string, maxLength: number): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength - 1)}…` : text;
  return cut.replaceAll('\u0000', '\ufffd').replace(/\p{Surrogate}/gu, '\ufffd');
}
