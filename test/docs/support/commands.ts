/** Runs what the docs tell a reader to run, in the reader's place. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { ROOT } from './page.js';

const TSX = join(ROOT, 'node_modules/tsx/dist/cli.mjs');
const PATIENCE_MS = 25_000;

export type Finished = { code: number | null; stdout: string; stderr: string };
export type RunOptions = { cwd: string; env: Record<string, string> };

/** Runs a program with the given file to its end. */
export function runTypeScript(file: string, options: RunOptions): Promise<Finished> {
  return finish(spawn(process.execPath, [TSX, file], spawnOptions(options)));
}

/** Runs a JavaScript program to its end. */
export function runNode(file: string, options: RunOptions): Promise<Finished> {
  return finish(spawn(process.execPath, [file], spawnOptions(options)));
}

/** Runs a command line in a shell to its end. */
export function runShell(command: string, options: RunOptions): Promise<Finished> {
  return finish(spawn('bash', ['-euo', 'pipefail', '-c', command], spawnOptions(options)));
}

export type Background = {
  says(words: string): Promise<void>;
  /** Default: SIGINT, as Ctrl-C sends it. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  output(): string;
};

/** Starts a command that runs until it is stopped, as in its own terminal. */
export function startShell(command: string, options: RunOptions): Background {
  const child = spawn('bash', ['-c', command], { ...spawnOptions(options), detached: true });
  let output = '';
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      for (const listener of listeners) listener();
    });
  }
  // when everything that writes to its output has ended, not only the shell
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()));

  return {
    output: () => output,
    says(words) {
      return new Promise((resolve, reject) => {
        const settle = (error?: Error) => {
          clearTimeout(timer);
          listeners.delete(look);
          if (error) reject(error);
          else resolve();
        };
        const look = () => output.includes(words) && settle();
        const timer = setTimeout(
          () => settle(new Error(`"${command}" did not say "${words}":\n${output}`)),
          PATIENCE_MS,
        );
        listeners.add(look);
        void exited.then(() => settle(new Error(`"${command}" has ended:\n${output}`)));
        look();
      });
    },
    async stop(signal = 'SIGINT') {
      // like Ctrl-C: every process of the terminal gets the signal
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
        process.kill(-child.pid, signal);
      }
      await exited;
    },
  };
}

function spawnOptions({ cwd, env }: RunOptions) {
  return {
    cwd,
    env: { ...withoutSettings(process.env), ...env },
    stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'],
  };
}

function finish(child: ChildProcess): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const output = { stdout: '', stderr: '' };
    const limit = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output.stdout += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      output.stderr += text;
    });
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(limit);
      resolve({ code, ...output });
    });
  });
}

/** A reader has none of what this machine or the test runner has set. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(DROVER|VITEST|NODE|npm)_/.test(name)));
}
