/** Runs the built `drover` as a process of its own. `npm test` builds it first. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const TIMEOUT_MS = 25_000;

export type CliProcess = {
  child: ChildProcess;
  /** Everything printed so far. */
  text(): string;
  /** Resolves with the match once the output has it; rejects if the process ends or takes too long. */
  says(pattern: RegExp): Promise<RegExpExecArray>;
  /** Sends a signal, waits for the end and gives the exit code. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
  exited(): Promise<number | null>;
};

export function startDrover(
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): CliProcess {
  const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...options.env };
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: options.cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  const listeners = new Set<() => void>();
  const hear = (chunk: Buffer) => {
    text += chunk.toString();
    for (const listener of listeners) listener();
  };
  child.stdout.on('data', hear);
  child.stderr.on('data', hear);
  const exit = once(child, 'close').then(([code]) => code as number | null);

  return {
    child,
    text: () => text,
    says: (pattern) =>
      new Promise((resolve, reject) => {
        const giveUp = (why: string) => reject(new Error(`${why} without saying ${pattern}:\n${text}`));
        const timer = setTimeout(() => giveUp('too slow'), TIMEOUT_MS);
        const look = () => {
          const match = pattern.exec(text);
          if (!match) return;
          clearTimeout(timer);
          listeners.delete(look);
          resolve(match);
        };
        listeners.add(look);
        look();
        void exit.then(() => giveUp('it ended'));
      }),
    end: (signal = 'SIGTERM') => {
      child.kill(signal);
      return exit;
    },
    exited: () => exit,
  };
}
