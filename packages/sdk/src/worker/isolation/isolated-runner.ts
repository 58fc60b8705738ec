/**
 * Runs one attempt in its own process. Payload, handler and outcome use the same code as in-process, run there by the
 * `Runner` of `process-main.ts`. This file does what only the worker can do: keep the time limit, pass on
 * interruptions, kill a handler that ignores them, and judge a process that ended without an outcome.
 *
 * Invariant: `run` resolves when the handler has settled and its process is idle again, or when the process and all
 * its descendants are gone. An interrupted, crashed or killed process is never used again.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { DroverError, type Outcome } from '@drover/protocol';
import { JOB, type RunnableJob } from '../../job-definition.js';
import type { Logger } from '../../logger.js';
import { type Attempt, InterruptedError } from '../attempt.js';
import type { ContextServices } from '../attempt-context.js';
import { outcomeOfError } from '../outcome.js';
import { limitTime } from '../time-limit.js';
import type { Ended, JobListener, JobProcess } from './job-process.js';
import { KillTimer } from './kill-timer.js';
import { type IsolatedHandler, ProcessPool } from './process-pool.js';
import type { SharedProcessTable } from './process-table.js';

/**
 * Upper limit of a handler's grace for some reasons to stop, even if its `grace` option is longer: a lost job may
 * soon start elsewhere, and the worker's own `stop()` waits 5 s for handlers.
 */
const MAX_GRACE_MS: Readonly<Record<string, number>> = { lost: 1000, unconfirmed: 1000, shutdown: 4000 };

export type IsolatedRunnerOptions = {
  services: ContextServices;
  logger: Logger;
  slots: number;
  now: () => number;
  random: () => number;
  /** Whether the lease allows a handler to start now. Default: always. */
  mayStart?: (() => boolean) | undefined;
  /** The program of the processes. Tests that run from source pass the built file. */
  processMain?: URL | undefined;
};

export class IsolatedRunner {
  readonly #options: IsolatedRunnerOptions;
  readonly #pool: ProcessPool;
  readonly #running = new Map<Attempt, JobProcess>();

  constructor(options: IsolatedRunnerOptions) {
    const { slots, logger, processMain } = options;
    this.#options = options;
    this.#pool = new ProcessPool({ slots, logger, main: processMain ? fileURLToPath(processMain) : ownProcessMain() });
  }

  /** For `killProcesses`, from any thread. */
  get processTable(): SharedProcessTable {
    return this.#pool.table.shared;
  }

  /** The existing processes, busy or idle. */
  get pids(): number[] {
    return this.#pool.pids;
  }

  /** Never rejects. No outcome means that the job is no longer ours to report. */
  async run(attempt: Attempt, job: RunnableJob): Promise<Outcome | undefined> {
    const { now, random } = this.#options;
    const { assignment } = attempt;
    const startedAt = now();
    let hasBegun = false;
    try {
      const isolated = isolatedHandler(job);
      const process = await this.#pool.take(isolated, attempt.signal);
      const outcome = await this.#runIn(process, attempt, isolated, () => {
        hasBegun = true;
      });
      // Lost just as it ended; the process did not know.
      return attempt.stopReason === 'lost' ? undefined : outcome;
    } catch (error) {
      // Interrupted while its process was starting: the handler was not called, so no attempt is used up.
      if (!hasBegun && attempt.stopReason === 'unconfirmed') {
        return { id: assignment.id, fence: assignment.fence, kind: 'released' };
      }
      const ending = { assignment, runMs: now() - startedAt, stopReason: attempt.stopReason, random: random() };
      return outcomeOfError(ending, error);
    } finally {
      attempt.isSettled = true;
    }
  }

  /** Kills the processes of matching attempts, such as those of `rerun` jobs. Returns how many. */
  killRunning(filter: (attempt: Attempt) => boolean, reason = 'its worker no longer owns the job'): number {
    const chosen = [...this.#running].filter(([attempt]) => filter(attempt));
    for (const [, process] of chosen) process.kill(reason);
    return chosen.length;
  }

  /** Kills every process at once and starts no more. */
  killAll(reason = 'its worker ends'): void {
    this.#pool.killAll(reason);
  }

  /** Ends idle processes and kills busy ones. Resolves when all of them are gone. */
  async stop(): Promise<void> {
    await this.#pool.stop();
  }

  async #runIn(
    process: JobProcess,
    attempt: Attempt,
    { isolation }: IsolatedHandler,
    onBegin: () => void,
  ): Promise<Outcome | undefined> {
    const { assignment } = attempt;
    const timeoutMs = assignment.options?.timeout;
    const { graceMs, maxJobs } = isolation;
    const killTimer = new KillTimer(process, this.#options.now);
    attempt.onInterrupt = (reason, error) => {
      process.interrupt(reason, error);
      killTimer.within(Math.min(graceMs, MAX_GRACE_MS[reason] ?? graceMs));
    };
    const clock = timeoutMs === undefined ? undefined : limitTime(attempt, timeoutMs);
    this.#running.set(attempt, process);
    let ended: Ended | undefined;
    try {
      // The worker may have been frozen while the process was starting, and its lease be over.
      if (this.#options.mayStart?.() === false) {
        attempt.interrupt(
          'unconfirmed',
          new InterruptedError('lost', 'the lease was in doubt when the process was ready'),
        );
      }
      // An interruption may have arrived in the turn in which the process was taken.
      attempt.signal.throwIfAborted();
      onBegin();
      ended = await process.run(assignment, this.#listenerOf(attempt));
      return ended.outcome;
    } finally {
      clock?.stop();
      killTimer.stop();
      attempt.onInterrupt = undefined;
      this.#logOutput(process, attempt);
      const isClean = attempt.stopReason === undefined && ended?.leftovers === 0;
      await this.#pool.giveBack(process, isClean, maxJobs);
      this.#running.delete(attempt);
    }
  }

  #listenerOf(attempt: Attempt): JobListener {
    const { services } = this.#options;
    return {
      logger: services.logger,
      progress: (value: string) => services.reportProgress(attempt, value),
    };
  }

  #logOutput(process: JobProcess, { assignment }: Attempt): void {
    const output = process.takeOutput();
    if (output === undefined) return;
    const fields = { jobId: assignment.id, jobType: assignment.type, pid: process.pid, ...output };
    this.#options.logger.debug({ event: 'output.captured', ...fields }, 'isolated handler wrote output');
  }
}

/** The program of the processes is a file of this package, so a bundle that contains this package does not have it. */
function ownProcessMain(): string {
  // A bundle of CommonJS has no address.
  const here: string | undefined = import.meta.url;
  const main = here === undefined ? undefined : fileURLToPath(new URL('./process-main.js', here));
  if (main !== undefined && existsSync(main)) return main;
  throw new DroverError(
    'invalid_request',
    'createWorker: jobs.isolation: isolated handlers need the files of @drover/sdk, but this program is a bundle that contains it; exclude @drover/sdk from the bundle (external) and install it beside the bundle',
  );
}

function isolatedHandler(job: RunnableJob): IsolatedHandler {
  const { type } = job;
  const { isolation, module, loader } = job[JOB];
  if (isolation === undefined || module === undefined) {
    throw new Error(`the isolated handler of ${type} has no module`);
  }
  return { type, module, loader, isolation };
}
