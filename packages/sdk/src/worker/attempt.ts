/**
 * One grant of one job, from the moment the worker receives it until its handler has settled. Most jobs
 * are never interrupted and never look at their signal, so everything for that is made on demand.
 */
import type { Assignment, NewJob } from '@drover/protocol';

/**
 * Why a handler was told to stop, the weightier first: a job that is no longer ours is nobody's business
 * here, a person's wish counts more than a time limit, and a time limit more than our own going.
 * `unconfirmed`: no server confirmed the lease in time, so the job may soon be given to another worker.
 */
const STOP_REASONS = ['lost', 'cancelled', 'expired', 'timeout', 'unconfirmed', 'shutdown'] as const;
export type StopReason = (typeof STOP_REASONS)[number];

export class Attempt {
  readonly assignment: Assignment;
  isStarted = false;
  isSettled = false;
  stopReason: StopReason | undefined;
  /** When it was first told to stop, on `performance.now()`. */
  interruptedAt: number | undefined;
  /** A newer grant of the same job that came while this one still runs; it must wait for this one's end. */
  successor: Assignment | undefined;
  /** Jobs that become real with this one's success. */
  children: NewJob[] | undefined;
  /** Children's payloads that asynchronous schemas still check; the success waits for them. */
  checksUnderWay: Promise<unknown>[] | undefined;
  /** Hears of every interruption, where the signal tells of the first alone. */
  onInterrupt: ((reason: StopReason, error: Error) => void) | undefined;
  #controller: AbortController | undefined;
  #abortReason: Error | undefined;

  constructor(assignment: Assignment) {
    this.assignment = assignment;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  /** Tells the handler to stop. The signal keeps its first reason; the outcome follows the weightiest. */
  interrupt(stopReason: StopReason, error: Error): void {
    if (this.isSettled) return;
    if (this.stopReason === undefined || weightOf(stopReason) < weightOf(this.stopReason)) this.stopReason = stopReason;
    this.onInterrupt?.(stopReason, error);
    if (this.#abortReason !== undefined) return;
    this.#abortReason = error;
    this.interruptedAt = performance.now();
    this.#controller?.abort(error);
  }
}

function weightOf(reason: StopReason): number {
  return STOP_REASONS.indexOf(reason);
}

/** To a handler, a job that others may start soon is lost already: it must stop just the same. */
export type SignalCode = Exclude<StopReason, 'unconfirmed'>;

/** The reason a handler finds in its signal, in the form that libraries know. */
export class InterruptedError extends Error {
  override readonly name = 'AbortError';
  readonly code: SignalCode;

  constructor(code: SignalCode, message: string) {
    super(message);
    this.code = code;
  }
}
