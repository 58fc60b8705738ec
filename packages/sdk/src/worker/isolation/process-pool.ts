/**
 * The processes of a worker's isolated handlers. A process that ended its job cleanly waits for the next job of its
 * type, so that a job costs a message round trip instead of a start of Node.
 *
 * Invariants: there are never more processes than slots, busy and idle together. A start that would exceed this first
 * ends the process that has been idle longest. A process is used again only if its last job ended by itself and left
 * nothing running.
 */
import type { ProcessIsolation } from '../../isolation-option.js';
import type { Logger } from '../../logger.js';
import { JobProcess } from './job-process.js';
import { nodeArguments } from './node-arguments.js';
import { ProcessTable } from './process-table.js';

const IDLE_TIMEOUT_MS = 60_000;

export type ProcessPoolOptions = {
  slots: number;
  logger: Logger;
  /** The program of the processes. */
  main: string;
};

/** A handler that can run in a process; `createWorker` has checked it. */
export type IsolatedHandler = { type: string; module: string; loader: string | undefined; isolation: ProcessIsolation };

export class ProcessPool {
  readonly table: ProcessTable;
  readonly #options: ProcessPoolOptions;
  readonly #all = new Set<JobProcess>();
  /** In the order in which they became idle, each with the timer that ends it. */
  readonly #idle = new Map<JobProcess, NodeJS.Timeout>();
  /** Idle processes that were asked to exit. */
  readonly #leaving = new Set<JobProcess>();
  #isStopped = false;

  constructor(options: ProcessPoolOptions) {
    this.#options = options;
    this.table = new ProcessTable(options.slots);
  }

  /** Number of processes, busy or idle. */
  get size(): number {
    return this.#all.size;
  }

  get pids(): number[] {
    return [...this.#all].flatMap(({ pid }) => pid ?? []);
  }

  /** Returns a process that is ready for a job. If the signal aborts first, it rejects when the process is gone. */
  async take(handler: IsolatedHandler, signal: AbortSignal): Promise<JobProcess> {
    signal.throwIfAborted();
    const idle = this.#takeIdle(handler.type);
    if (idle !== undefined) return idle;
    const started = await this.#startInRoom(handler, signal);
    const abandon = () => started.kill('its job was interrupted before it began');
    if (signal.aborted) abandon();
    else signal.addEventListener('abort', abandon);
    try {
      await started.ready;
      return started;
    } finally {
      signal.removeEventListener('abort', abandon);
    }
  }

  /** Call after a job. Resolves at once if the process is kept, otherwise when it is gone. */
  async giveBack(used: JobProcess, isClean: boolean, maxJobs: number): Promise<void> {
    if (isClean && !used.isGone && used.jobs < maxJobs && !this.#isStopped) {
      this.#keep(used);
      return;
    }
    if (isClean) await used.end();
    else used.kill('its job was interrupted or left processes behind');
    await used.gone;
  }

  /** Ends idle processes and kills busy ones. Resolves when all are gone. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const idle of [...this.#idle.keys()]) this.#leave(idle);
    for (const busy of this.#all) if (!this.#leaving.has(busy)) busy.kill('the worker has stopped');
    await Promise.all([...this.#all].map(({ gone }) => gone));
  }

  /** Kills every process at once and starts no more. */
  killAll(reason: string): void {
    this.#isStopped = true;
    for (const one of this.#all) one.kill(reason);
  }

  async #startInRoom(handler: IsolatedHandler, signal: AbortSignal): Promise<JobProcess> {
    while (this.#all.size >= this.#options.slots) {
      await this.#whenOneHasLeft();
      signal.throwIfAborted();
    }
    if (this.#isStopped) throw new Error('the worker has stopped');
    // In the same turn as the count above, so that two starts do not use the same free place.
    return this.#start(handler);
  }

  /**
   * Ends the process that has been idle longest, and waits until one is gone. One is always idle or leaving: there
   * are as many processes as slots, and the caller's slot has none.
   */
  async #whenOneHasLeft(): Promise<void> {
    const [longestIdle] = this.#idle.keys();
    if (longestIdle !== undefined) this.#leave(longestIdle);
    await Promise.race([...this.#leaving].map(({ gone }) => gone));
  }

  #start({ type, module, loader, isolation }: IsolatedHandler): JobProcess {
    const { memoryBytes } = isolation;
    const spec = {
      main: this.#options.main,
      nodeArguments: nodeArguments(process.execArgv, { loader, memoryBytes }),
      module,
      type,
      memoryBytes,
    };
    const started = new JobProcess(spec, this.table);
    this.#all.add(started);
    void started.gone.then((error) => this.#ended(started, error));
    return started;
  }

  #ended(ended: JobProcess, error: Error): void {
    this.#all.delete(ended);
    this.#leaving.delete(ended);
    if (!this.#idle.has(ended)) return;
    this.#removeIdle(ended);
    const fields = { jobType: ended.type, pid: ended.pid, reason: error.message };
    this.#options.logger.warn({ event: 'process.exited', ...fields }, 'idle process of an isolated handler exited');
  }

  /** The one used last: its code and caches are the warmest, and the others can reach their idle limit. */
  #takeIdle(type: string): JobProcess | undefined {
    const found = [...this.#idle.keys()].findLast((idle) => idle.type === type && !idle.isGone);
    if (found !== undefined) this.#removeIdle(found);
    return found;
  }

  #keep(idle: JobProcess): void {
    this.#idle.set(
      idle,
      setTimeout(() => this.#leave(idle), IDLE_TIMEOUT_MS),
    );
  }

  #leave(idle: JobProcess): void {
    this.#removeIdle(idle);
    this.#leaving.add(idle);
    void idle.end();
  }

  #removeIdle(idle: JobProcess): void {
    clearTimeout(this.#idle.get(idle));
    this.#idle.delete(idle);
  }
}
