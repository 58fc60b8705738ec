/**
 * The jobs that a worker holds: waiting jobs in the order of arrival, and running jobs, at most one per slot.
 *
 * Invariant: two grants of the same job never run here at once. A newer grant that arrives while an older one runs
 * (the worker was cut off and the job was granted again) waits for the older one to settle.
 */
import type { Assignment, Grant, Outcome } from '@drover/protocol';
import { Attempt, InterruptedError, type StopReason } from './attempt.js';

/** Handlers that never wait would block the event loop; after this long, other work gets a turn. */
const MAX_TURN_MS = 10;
/** Used places of the waiting list before it is trimmed. */
const MAX_USED_UP = 4096;

export type SlotsOptions = {
  slots: number;
  run: (attempt: Attempt) => Promise<Outcome | undefined>;
  /** An attempt has ended, with its outcome if there is one to report. */
  settled: (attempt: Attempt, outcome: Outcome | undefined) => void;
  /** Whether a job may start at this time (`performance.now()`). If not, `resume` is called when it may. */
  mayStart: (now: number) => boolean;
  isIsolated: (type: string) => boolean;
  /** How many handlers run, and how many of them cannot be killed from outside. Called before each handler. */
  occupied: (running: number, exposed: number) => void;
};

export type CancelReason = 'cancelled' | 'expired' | 'lost';

const STOP_MESSAGES: Readonly<Record<Exclude<StopReason, 'timeout'>, string>> = {
  unconfirmed: 'no server confirmed the lease in time; another worker may start the job soon',
  cancelled: 'the job was cancelled',
  expired: 'the job has expired',
  lost: 'the worker no longer owns the job',
  shutdown: 'the worker is stopping',
};

export class Slots {
  readonly #options: SlotsOptions;
  /** By job id: waiting and running. */
  readonly #held = new Map<string, Attempt>();
  #waiting: Attempt[] = [];
  /** Index of the first waiting attempt. Places before it are used and trimmed from time to time. */
  #first = 0;
  #running = 0;
  /** Running attempts in this process whose jobs another worker starts when this one is lost. */
  #exposed = 0;
  /** Attempts started since the worker began. The stall watch compares it. */
  #started = 0;
  #turnStartedAt: number | undefined;
  #idleListeners: (() => void)[] = [];

  constructor(options: SlotsOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting.length - this.#first;
  }

  get started(): number {
    return this.#started;
  }

  get held(): number {
    return this.#held.size;
  }

  grants(): Grant[] {
    const grants: Grant[] = [];
    for (const { assignment, successor } of this.#held.values()) {
      grants.push({ id: assignment.id, fence: assignment.fence });
      if (successor) grants.push({ id: successor.id, fence: successor.fence });
    }
    return grants;
  }

  accept(assignments: readonly Assignment[]): void {
    for (const assignment of assignments) {
      const earlier = this.#held.get(assignment.id);
      if (earlier === undefined) this.#enqueue(assignment);
      else this.#follow(earlier, assignment);
    }
    this.#fill();
  }

  /** Stops one job. Returns the outcome if it had not started. */
  cancel(grant: Grant, reason: CancelReason): Outcome | undefined {
    const attempt = this.#held.get(grant.id);
    if (attempt?.successor?.fence === grant.fence) {
      attempt.successor = undefined;
      return outcomeUnstarted(grant, reason);
    }
    if (attempt?.assignment.fence !== grant.fence) return undefined;
    if (attempt.isStarted) {
      attempt.interrupt(reason, new InterruptedError(reason, STOP_MESSAGES[reason]));
      return undefined;
    }
    this.#remove(attempt);
    return outcomeUnstarted(grant, reason);
  }

  /** Removes everything that has not started. Returns it as handed back. */
  handBack(): Outcome[] {
    const outcomes: Outcome[] = [];
    for (const attempt of this.#waiting.slice(this.#first)) {
      this.#held.delete(attempt.assignment.id);
      outcomes.push({ id: attempt.assignment.id, fence: attempt.assignment.fence, kind: 'released' });
    }
    this.#waiting = [];
    this.#first = 0;
    for (const attempt of this.#held.values()) {
      if (attempt.successor === undefined) continue;
      outcomes.push({ id: attempt.successor.id, fence: attempt.successor.fence, kind: 'released' });
      attempt.successor = undefined;
    }
    return outcomes;
  }

  /** Tells every handler to stop whose job another worker may start when the lease is over. */
  interruptRerun(): number {
    let count = 0;
    for (const attempt of this.#held.values()) {
      if (!attempt.isStarted || !isRerun(attempt)) continue;
      attempt.interrupt('unconfirmed', new InterruptedError('lost', STOP_MESSAGES.unconfirmed));
      count++;
    }
    return count;
  }

  /** Attempts that were told to stop before this time and have not. */
  overdue(before: number): Attempt[] {
    const overdue: Attempt[] = [];
    for (const attempt of this.#held.values()) {
      if (attempt.interruptedAt !== undefined && attempt.interruptedAt < before) overdue.push(attempt);
    }
    return overdue;
  }

  /** Continues after `mayStart` has refused. */
  resume(): void {
    this.#fill();
  }

  /** Tells every running handler that the worker shuts down. */
  interruptAll(): void {
    for (const attempt of this.#held.values()) {
      attempt.interrupt('shutdown', new InterruptedError('shutdown', STOP_MESSAGES.shutdown));
    }
  }

  /** Resolves when no handler runs. */
  whenIdle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idleListeners.push(resolve));
  }

  #enqueue(assignment: Assignment): void {
    const attempt = new Attempt(assignment);
    this.#held.set(assignment.id, attempt);
    this.#waiting.push(attempt);
  }

  /** Handles a grant of a job that is already held: the same grant, an older one, or a newer one. */
  #follow(earlier: Attempt, assignment: Assignment): void {
    const known = earlier.successor ?? earlier.assignment;
    if (assignment.fence <= known.fence) return;
    if (earlier.isStarted) {
      earlier.interrupt('lost', new InterruptedError('lost', STOP_MESSAGES.lost));
      earlier.successor = assignment;
      return;
    }
    this.#remove(earlier);
    this.#enqueue(assignment);
  }

  #remove(attempt: Attempt): void {
    this.#held.delete(attempt.assignment.id);
    this.#waiting = this.#waiting.slice(this.#first).filter((other) => other !== attempt);
    this.#first = 0;
  }

  #fill(): void {
    while (this.#running < this.#options.slots && this.waiting > 0) {
      const now = performance.now();
      if (!this.#options.mayStart(now) || this.#isTurnOver(now)) return;
      this.#occupy(this.#takeFirst());
    }
  }

  #takeFirst(): Attempt {
    const attempt = this.#waiting[this.#first++] as Attempt;
    if (this.#first === this.#waiting.length || this.#first >= MAX_USED_UP) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
    return attempt;
  }

  /** Whether this event loop turn has taken long enough. If so, `#fill` continues in the next one. */
  #isTurnOver(now: number): boolean {
    if (this.#turnStartedAt === undefined) {
      this.#turnStartedAt = now;
      setImmediate(() => {
        this.#turnStartedAt = undefined;
        this.#fill();
      });
    }
    return now - this.#turnStartedAt > MAX_TURN_MS;
  }

  #occupy(attempt: Attempt): void {
    const exposure = isRerun(attempt) && !this.#options.isIsolated(attempt.assignment.type) ? 1 : 0;
    this.#running++;
    this.#exposed += exposure;
    this.#started++;
    attempt.isStarted = true;
    this.#options.occupied(this.#running, this.#exposed);
    void this.#options.run(attempt).then((outcome) => this.#vacate(attempt, exposure, outcome));
  }

  #vacate(attempt: Attempt, exposure: number, outcome: Outcome | undefined): void {
    this.#running--;
    this.#exposed -= exposure;
    this.#options.occupied(this.#running, this.#exposed);
    this.#held.delete(attempt.assignment.id);
    if (attempt.successor !== undefined) this.#enqueue(attempt.successor);
    this.#options.settled(attempt, outcome);
    this.#fill();
    if (this.#running === 0) for (const listener of this.#idleListeners.splice(0)) listener();
  }
}

/** Whether another worker starts the job when this one is lost. That is the default for servers that do not say. */
function isRerun({ assignment }: Attempt): boolean {
  return assignment.options?.onLost !== 'hold';
}

function outcomeUnstarted({ id, fence }: Grant, reason: CancelReason): Outcome | undefined {
  switch (reason) {
    case 'lost':
      return undefined;
    case 'cancelled':
      return { id, fence, kind: 'cancelled', runMs: 0 };
    case 'expired': {
      const error = { name: 'Error', message: 'the job expired before it started', code: 'expired' };
      return { id, fence, kind: 'failed', runMs: 0, error };
    }
  }
}
