/**
 * A process that a test has started and therefore ends: by its pid, whatever the result of the test. It has an IPC
 * channel to us, so it also ends when we are killed.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { until } from './until.js';

const MAX_LOG_LINES = 2000;
const STOP_MS = 30_000;

export type OwnedProcess = {
  readonly name: string;
  readonly pid: number;
  readonly hasExited: boolean;
  /** The exit code, or the signal that ended it. */
  readonly exited: Promise<number | string>;
  /** Its output; if there is a lot, the latest lines. */
  log(): string;
  /** Sends a value over the channel. */
  tell(message: object): void;
  kill(signal: NodeJS.Signals): void;
  /** Sends SIGTERM. Returns how it ended. */
  stop(): Promise<number | string>;
  /** SIGKILL; resolves when it is gone. */
  destroy(): Promise<void>;
};

export function startProcess(name: string, file: string, args: string[], env: Record<string, string>): OwnedProcess {
  const child = fork(file, args, {
    env: { ...withoutSettings(process.env), ...env },
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const lines = collectLines(child);
  const exited = once(child, 'exit').then(([code, signal]) => (signal ?? code) as number | string);
  const hasExited = () => child.exitCode !== null || child.signalCode !== null;

  return {
    name,
    pid: child.pid ?? 0,
    exited,
    get hasExited() {
      return hasExited();
    },
    log: () => lines.join('\n'),
    tell(message) {
      if (child.connected) child.send(message);
    },
    kill: (signal) => void child.kill(signal),
    async stop() {
      child.kill('SIGTERM');
      await until(`${name} has stopped`, hasExited, { withinMs: STOP_MS });
      return exited;
    },
    async destroy() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function collectLines(child: ChildProcess): string[] {
  const lines: string[] = [];
  for (const output of [child.stdout, child.stderr]) {
    output?.setEncoding('utf8').on('data', (text: string) => {
      lines.push(...text.trimEnd().split('\n'));
      if (lines.length > MAX_LOG_LINES) lines.splice(0, lines.length - MAX_LOG_LINES);
    });
  }
  return lines;
}

/** The developer's own configuration must not affect the test. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(DROVER|VITEST|NODE)_/.test(name)));
}
