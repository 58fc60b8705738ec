/** Starts `worker-process.mjs` and listens to what it prints. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { environmentOf, type TestPoints } from '../../../../test/support/test-points/environment.js';
import type { WorkerOptions } from '../../src/worker/index.js';

const PROGRAM = fileURLToPath(new URL('./worker-process.mjs', import.meta.url));

export type WorkerProcessOptions = {
  options: Partial<WorkerOptions>;
  ownsProcess?: boolean;
  hasLogger?: boolean;
} & TestPoints;

export class WorkerProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #lines: string[] = [];
  #wake: () => void = () => {};
  #hasEnded = false;

  /** `shell` wraps the command, for limits that only a shell can set. */
  constructor({ failpoint, without, ...settings }: WorkerProcessOptions, shell?: string) {
    const args = [PROGRAM, JSON.stringify(settings)];
    const [command, commandArgs] =
      shell === undefined
        ? [process.execPath, args]
        : ['/bin/sh', ['-c', `${shell}; exec "$0" "$@"`, process.execPath, ...args]];
    const env = { ...process.env, ...environmentOf({ failpoint, without }) };
    this.child = spawn(command, commandArgs, { stdio: ['ignore', 'pipe', 'pipe'], env });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        this.#lines.push(line);
        this.#wake();
      });
    }
    this.ended = new Promise((resolve) => {
      this.child.on('close', (code, signal) => {
        this.#hasEnded = true;
        this.#wake();
        resolve({ code, signal });
      });
    });
  }

  get lines(): readonly string[] {
    return this.#lines;
  }

  /** The first line that contains the words, printed already or not yet. */
  async says(words: string): Promise<string> {
    for (;;) {
      const line = this.#lines.find((candidate) => candidate.includes(words));
      if (line !== undefined) return line;
      if (this.#hasEnded) throw new Error(`the worker ended without "${words}":\n${this.#lines.join('\n')}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async kill(): Promise<void> {
    this.child.kill('SIGCONT');
    this.child.kill('SIGKILL');
    await this.ended;
  }
}
