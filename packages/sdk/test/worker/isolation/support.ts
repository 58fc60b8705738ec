/** A runner for isolated handlers, what they said, and whether processes still run. */
import { readFileSync } from 'node:fs';
import type { Assignment, Outcome } from '@drover/protocol';
import { newId } from '@drover/protocol';
import type { RunnableJob } from '../../../src/index.js';
import type { LogFields } from '../../../src/logger.js';
import { Attempt } from '../../../src/worker/attempt.js';
import type { ContextServices } from '../../../src/worker/attempt-context.js';
import { Runner } from '../../../src/worker/runner.js';

/** Processes run the built package, as they do for users: the handlers' modules import it by its name. */
const PROCESS_MAIN = new URL('../../../dist/worker/isolation/process-main.js', import.meta.url);

export type Line = { level: string; fields: LogFields; message: string };

export class TestWorker {
  readonly runner: Runner;
  /** Whether the lease allows a handler to start. */
  mayStart = true;
  readonly lines: Line[] = [];
  readonly progress: string[] = [];
  #wake: () => void = () => {};

  constructor(jobs: readonly RunnableJob[], slots = 4) {
    const write = (level: string) => (fields: LogFields, message: string) => {
      this.lines.push({ level, fields, message });
      this.#wake();
    };
    const logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
    const services: ContextServices = { logger, reportProgress: (_attempt, value) => this.progress.push(value) };
    const mayStart = () => this.mayStart;
    this.runner = new Runner({ jobs, services, logger, slots, processMain: PROCESS_MAIN, mayStart });
  }

  get pids(): number[] {
    return this.runner.isolated?.pids ?? [];
  }

  run(type: string, payload: unknown = null, changes: Partial<Assignment> = {}): Promise<Outcome | undefined> {
    return this.start(type, payload, changes).outcome;
  }

  start(type: string, payload: unknown = null, changes: Partial<Assignment> = {}): Started {
    const attempt = new Attempt(assignment(type, payload, changes));
    return { attempt, outcome: this.runner.run(attempt) };
  }

  /** The next line with this message; it is taken out. */
  async line(message: string): Promise<LogFields> {
    for (;;) {
      const index = this.lines.findIndex((line) => line.message === message);
      if (index >= 0) return (this.lines.splice(index, 1)[0] as Line).fields;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

export type Started = { attempt: Attempt; outcome: Promise<Outcome | undefined> };

export function assignment(type: string, payload: unknown, changes: Partial<Assignment> = {}): Assignment {
  const plain = { queue: 'default', attempt: 1, maxAttempts: 10 } as const;
  return { id: newId(), fence: 1, type, payload, ...plain, ...changes };
}

/** A process that has ended but whose parent has not read its exit code (a zombie) does not run. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== 'linux') return true;
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    // Gone between the two looks.
    return false;
  }
}

export function running(fields: LogFields): number[] {
  return (fields.pids as number[]).filter(isRunning);
}
