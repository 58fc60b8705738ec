/**
 * One child process that runs the handler of one job type, one job at a time. This is the worker's side; the other
 * side is `process-main.ts`, and the messages are in `messages.ts`.
 *
 * Invariant: `gone` resolves once, when the process and all its descendants have ended. Only `gone` makes `ready` or
 * `run` fail, so after a failure nothing of the process runs any more.
 *
 * When the process dies during a job, `run` rejects with a `ProcessError` that says how. When the worker dies, the
 * kernel closes channel and lifeline, and the process kills itself and its descendants.
 */
import { type ChildProcess, fork } from 'node:child_process';
import type { Assignment, Outcome } from '@drover/protocol';
import { within } from '@drover/protocol/within';
import type { Logger } from '../../logger.js';
import { InterruptedError, type StopReason } from '../attempt.js';
import { CappedOutput } from './capped-output.js';
import {
  type Envelope,
  type FromProcess,
  fromProcessMessage,
  LIFELINE_FD,
  MARK_VARIABLE,
  type ToProcess,
} from './messages.js';
import { ProcessError } from './process-error.js';
import type { ProcessTable } from './process-table.js';
import { killTree, type ProcessTree, untilTreeGone } from './process-tree.js';

/** Limit for a process to load its module and report it. */
const START_TIMEOUT_MS = 60_000;
/** Limit for an idle process to run its exit handlers after it was asked to end. */
const EXIT_GRACE_MS = 1000;
/**
 * Limit for the rest of the output after the whole tree is gone. Only an escaped descendant can hold it open longer.
 */
const OUTPUT_WAIT_MS = 500;
/** What the watchdog writes to the lifeline before it kills the process. */
const MEMORY_PATTERN = /memory (\d+)/;
/** What V8 prints when it runs out of memory. */
const HEAP_PATTERN = /JavaScript heap out of memory|Zone Allocation failed/;
const MIB = 1024 * 1024;

export type ProcessSpec = {
  /** The program of the process. */
  readonly main: string;
  readonly nodeArguments: readonly string[];
  readonly module: string;
  readonly type: string;
  readonly memoryBytes: number | undefined;
};

/** Receives what a job sends before it ends. */
export type JobListener = {
  readonly logger: Logger;
  progress(value: string): void;
};

export type Ended = { outcome: Outcome | undefined; leftovers: number };

type CurrentJob = { listener: JobListener; resolve: (ended: Ended) => void };
type Exit = { code: number | null; signal: NodeJS.Signals | null; failure?: Error };

export class JobProcess {
  readonly type: string;
  readonly ready: Promise<void>;
  /** Resolves with the error for a job that was still running. */
  readonly gone: Promise<ProcessError>;
  readonly #spec: ProcessSpec;
  readonly #child: ChildProcess;
  readonly #tree: ProcessTree | undefined;
  readonly #table: ProcessTable;
  readonly #row: number = -1;
  readonly #stdout = new CappedOutput();
  readonly #stderr = new CappedOutput();
  #started: () => void = () => {};
  #current: CurrentJob | undefined;
  #unusable: { message: string; stack: string } | undefined;
  #lastWord = '';
  #killReason: string | undefined;
  #jobs = 0;
  #isGone = false;

  constructor(spec: ProcessSpec, table: ProcessTable) {
    this.type = spec.type;
    this.#spec = spec;
    this.#table = table;
    const { number, mark } = table.nextMark();
    this.#child = fork(spec.main, [spec.module, spec.type, String(spec.memoryBytes ?? 0)], {
      execArgv: [...spec.nodeArguments],
      env: { ...process.env, [MARK_VARIABLE]: mark },
      // Its own session and group: Ctrl-C does not reach it, and it can be killed as a whole.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc', 'pipe'],
    });
    const { pid } = this.#child;
    if (pid !== undefined) {
      this.#tree = { pid, mark };
      this.#row = table.add(pid, number);
    }
    this.gone = this.#untilGone();
    this.ready = this.#untilReady();
    // A process may end before anything awaits this promise; the rejection must not end the worker.
    this.ready.catch(() => {});
    this.#listen();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Number of jobs that it was given. */
  get jobs(): number {
    return this.#jobs;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Resolves when the handler has settled. Rejects if the process ends first. */
  async run(assignment: Assignment, listener: JobListener): Promise<Ended> {
    this.#jobs++;
    this.#table.setDuty(this.#row, assignment.options?.onLost ?? 'rerun');
    const ended = new Promise<Ended>((resolve) => {
      this.#current = { listener, resolve };
    });
    this.#send({ kind: 'run', assignment });
    try {
      return await Promise.race([ended, this.#failure()]);
    } finally {
      this.#current = undefined;
      if (!this.#isGone) this.#table.setDuty(this.#row, 'idle');
    }
  }

  /** Aborts the signal of the running job. */
  interrupt(reason: StopReason, error: Error): void {
    const code = error instanceof InterruptedError ? error.code : 'timeout';
    this.#send({ kind: 'interrupt', reason, code, message: error.message });
  }

  /** Kills the process and all its descendants at once. The reason becomes part of its job's error. */
  kill(reason: string): void {
    if (this.#isGone) return;
    this.#killReason ??= reason;
    if (this.#tree !== undefined) killTree(this.#tree);
  }

  /** Lets an idle process exit. Resolves when it is gone. */
  async end(): Promise<void> {
    this.#send({ kind: 'end' });
    if (!(await within(EXIT_GRACE_MS, this.gone))) this.kill('it did not exit on request');
    await this.gone;
  }

  /** Output since the last call, if any. A job's output may arrive after its end. */
  takeOutput(): { stdout: string; stderr: string } | undefined {
    if (this.#stdout.isEmpty && this.#stderr.isEmpty) return undefined;
    return { stdout: this.#stdout.take(), stderr: this.#stderr.take() };
  }

  #listen(): void {
    const { stdout, stderr, stdio } = this.#child;
    stdout?.on('data', (chunk: Buffer) => this.#stdout.add(chunk));
    stderr?.on('data', (chunk: Buffer) => this.#stderr.add(chunk));
    const lifeline = stdio[LIFELINE_FD];
    lifeline?.on('data', (chunk: Buffer) => {
      this.#lastWord += chunk.toString();
    });
    // A reset at the end of the process; `gone` reports how it ended.
    for (const stream of [stdout, stderr, lifeline]) stream?.on('error', () => {});
    this.#child.on('message', (raw) => this.#received(fromProcessMessage(raw)));
  }

  #received(message: FromProcess | undefined): void {
    switch (message?.kind) {
      case 'ready':
        this.#started();
        return;
      case 'unusable':
        this.#unusable = message;
        return;
      case 'log':
        this.#current?.listener.logger[message.level](message.fields, message.message);
        return;
      case 'progress':
        this.#current?.listener.progress(message.value);
        return;
      case 'ended':
        this.#current?.resolve(message);
        return;
    }
  }

  #send(message: ToProcess): void {
    const envelope: Envelope<ToProcess> = { drover: message };
    // A closed channel means that the process is ending; `gone` reports the reason.
    if (this.#child.connected) this.#child.send(envelope, () => {});
  }

  async #untilReady(): Promise<void> {
    const ready = new Promise<void>((resolve) => {
      this.#started = resolve;
    });
    const settled = Promise.race([ready, this.#failure()]);
    const isInTime = await within(START_TIMEOUT_MS, settled);
    if (!isInTime) this.kill(`it was not ready within ${START_TIMEOUT_MS / 1000} s`);
    await settled;
  }

  async #failure(): Promise<never> {
    throw await this.gone;
  }

  async #untilGone(): Promise<ProcessError> {
    const child = this.#child;
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const exit = await new Promise<Exit>((resolve) => {
      child.once('exit', (code, signal) => {
        this.#isGone = true;
        // In the same turn: from now on another process may get its id.
        this.#table.remove(this.#row);
        resolve({ code, signal });
      });
      child.on('error', (failure) => {
        // Errors of a running process are errors of its channel, and it ends without one.
        if (child.pid === undefined) resolve({ code: null, signal: null, failure });
      });
    });
    if (this.#tree !== undefined) {
      await untilTreeGone(this.#tree);
      await within(OUTPUT_WAIT_MS, closed);
    }
    this.#isGone = true;
    for (const stream of child.stdio) stream?.destroy();
    return this.#errorOf(exit);
  }

  #errorOf({ code, signal, failure }: Exit): ProcessError {
    const output = this.#stderr.tail();
    const { memoryBytes, module } = this.#spec;
    if (failure !== undefined)
      return new ProcessError('crashed', `the process could not be started: ${failure.message}`);
    if (this.#unusable !== undefined) {
      const { message, stack } = this.#unusable;
      return new ProcessError('crashed', `the process could not load ${module}: ${message}`, stack);
    }
    if (this.#killReason !== undefined) {
      return new ProcessError('crashed', `the process was killed: ${this.#killReason}`, output);
    }
    const usedBytes = MEMORY_PATTERN.exec(this.#lastWord)?.[1];
    if (usedBytes !== undefined && memoryBytes !== undefined) {
      const used = `${Math.round(Number(usedBytes) / MIB)} MiB`;
      return new ProcessError(
        'memory_limit',
        `the process used ${used}; its limit is ${memoryBytes / MIB} MiB`,
        output,
      );
    }
    if (signal !== null && HEAP_PATTERN.test(output)) {
      return new ProcessError('memory_limit', 'the process ran out of JavaScript heap', output);
    }
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
    return new ProcessError('crashed', `the process ${how} before its handler ended`, output);
  }
}
