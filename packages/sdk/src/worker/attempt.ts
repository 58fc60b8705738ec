/**
 * One grant of one job, from its receipt by the worker until its handler has settled. Most jobs are never interrupted
 * and never use their signal, so everything for that is created on demand.
 */
import type { Assignment, NewJob } from '@drover/protocol';

/**
 * Why a handler was told to stop, strongest reason first: a job that is lost is no longer ours to report; a cancel by
 * a person outranks a time limit; a time limit outranks the worker's own shutdown. `unconfirmed`: no server confirmed
 * the lease in time, so the job may soon be given to another worker.
 */
const STOP_REASONS = ['lost', 'cancelled', 'expired', 'timeout', 'unconfirmed', 'shutdown'] as const;
export type StopReason = (typeof STOP_REASONS)[number];

export class Attempt {
  readonly assignment: Assignment;
  isStarted = false;
  /** Its handler was called, or its payload was refused. Between the two a `hold` job waits for the journal. */
  hasRun = false;
  isSettled = false;
  stopReason: StopReason | undefined;
  /** When it was first told to stop, by `performance.now()`. */
  interruptedAt: number | undefined;
  /** A newer grant of the same job that arrived while this one runs. It starts when this one has ended. */
  successor: Assignment | undefined;
  /** Jobs that are created when this one succeeds. */
  children: NewJob[] | undefined;
  /** Checks of children's payloads by asynchronous schemas. The success waits for them. */
  checksUnderWay: Promise<unknown>[] | undefined;
  /** Called for every interruption; the signal only reports the first. */
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

  /** Tells the handler to stop. The signal keeps its first reason; the outcome follows the strongest. */
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

/** For a handler, `unconfirmed` equals `lost`: it must stop in both cases. */
export type SignalCode = Exclude<StopReason, 'unconfirmed'>;

/** The reason in a handler's signal, in the form that libraries expect. */
export class InterruptedError extends Error {
  override readonly name = 'AbortError';
  readonly code: SignalCode;

  constructor(code: SignalCode, message: string) {
    super(message);
    this.code = code;
  }
}
