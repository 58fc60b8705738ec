/**
 * The errors that a handler throws to control its job (`PermanentError`, `RetryAfter`, `snooze`), and those that the
 * client throws when a job or a call fails. `DroverError` of the protocol is the server's answer.
 */
import {
  DroverError,
  DURATION_EXPECTED,
  type Duration,
  type JobError,
  parseDuration,
  type Run,
} from '@drover/protocol';

/**
 * Control errors are recognised by a mark, not by class: a worker module may bring its own copy of this package (a
 * TypeScript module does), whose classes differ.
 */
const STEERING = Symbol.for('@drover/sdk steering');
type Steering = 'permanent' | 'retryAfter' | 'snooze';

function isMarked(value: unknown, mark: Steering): boolean {
  return value instanceof Error && (value as { [STEERING]?: unknown })[STEERING] === mark;
}

/** Thrown by a handler: the job fails without further attempts. */
export class PermanentError extends Error {
  override readonly name: string = 'PermanentError';
  readonly [STEERING] = 'permanent';

  static isOne(value: unknown): value is PermanentError {
    return isMarked(value, 'permanent');
  }
}

/** Thrown by a handler: this attempt failed, and the next one starts after `delay` instead of the back-off. */
export class RetryAfter extends Error {
  override readonly name: string = 'RetryAfter';
  readonly [STEERING] = 'retryAfter';
  readonly delayMs: number;

  constructor(delay: Duration, message?: string, options?: ErrorOptions) {
    super(message ?? `retry after ${delay}`, options);
    this.delayMs = delayMs('RetryAfter', delay);
  }

  static isOne(value: unknown): value is RetryAfter {
    return isMarked(value, 'retryAfter');
  }
}

/** Created by `snooze()`. An error, so that it can be thrown from any depth. It uses up no attempt. */
export class Snooze extends Error {
  override readonly name = 'Snooze';
  readonly [STEERING] = 'snooze';
  readonly delayMs: number;

  constructor(delay: Duration) {
    super(`run again in ${delay}`);
    this.delayMs = delayMs('snooze', delay);
  }

  static isOne(value: unknown): value is Snooze {
    return isMarked(value, 'snooze');
  }
}

/** Throw or return it from a handler to run again later without using up an attempt. */
export function snooze(delay: Duration): Snooze {
  return new Snooze(delay);
}

/** The awaited job has failed. `error` is what its last attempt reported. */
export class JobFailedError extends Error {
  override readonly name = 'JobFailedError';
  readonly id: string;
  readonly error: JobError | null;

  constructor(id: string, error: JobError | null) {
    super(`job ${id} failed: ${error?.message ?? 'no reason was recorded'}`);
    this.id = id;
    this.error = error;
  }
}

/** The awaited job was cancelled. */
export class JobCancelledError extends Error {
  override readonly name = 'JobCancelledError';
  readonly id: string;

  constructor(id: string) {
    super(`job ${id} was cancelled`);
    this.id = id;
  }
}

/** The awaited run has failed. `failure` names the step, null if it was the run itself, and what its job reported. */
export class RunFailedError extends Error {
  override readonly name = 'RunFailedError';
  readonly id: string;
  readonly failure: Run['error'];

  constructor(id: string, failure: Run['error']) {
    const step = typeof failure?.step === 'string' ? ` at step ${failure.step}` : '';
    super(`run ${id} failed${step}: ${failure?.error.message ?? 'no reason was recorded'}`);
    this.id = id;
    this.failure = failure;
  }
}

/** The awaited run was cancelled. */
export class RunCancelledError extends Error {
  override readonly name = 'RunCancelledError';
  readonly id: string;

  constructor(id: string) {
    super(`run ${id} was cancelled`);
    this.id = id;
  }
}

/** A time limit has passed: of a wait for a result, or of an attempt (then it is the reason of the signal). */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/** No server answered. The last request may have had an effect; repeating it is safe. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}

function delayMs(where: string, delay: Duration): number {
  const ms = parseDuration(delay);
  if (ms !== undefined) return ms;
  throw new DroverError('invalid_request', `${where}: expected ${DURATION_EXPECTED}, got ${String(delay)}`);
}
