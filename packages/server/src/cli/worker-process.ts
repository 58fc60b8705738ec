/**
 * Runs `drover worker` as a child process and restarts it when it dies. It is not in our process group, so that
 * Ctrl-C reaches only us and we decide the order. It has an IPC channel to us, so that it ends when we die.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.js';

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));
const RESTART_MS = 1000;
/** Added to the worker's own drain time before it is killed. */
const STOP_GRACE_MS = 15_000;

export type WorkerProcessOptions = {
  module: string;
  url: string;
  token: string | undefined;
  tls: Pick<Settings, 'ca' | 'cert' | 'key'>;
  drainTimeoutMs: number;
  logger: Logger;
  /** Called for each line that the worker logs. */
  onLine: (line: string) => void;
};

export function startWorkerProcess(options: WorkerProcessOptions): { stop(): Promise<void> } {
  const { logger } = options;
  let isStopping = false;
  let restart: NodeJS.Timeout | undefined;
  let child = run();

  function run(): ChildProcess {
    const started = spawnWorker(options);
    started.once('exit', (code, signal) => {
      if (isStopping) return;
      logger.warn({ event: 'worker.restarted', code, signal }, 'the worker process has ended and is started again');
      restart = setTimeout(() => {
        child = run();
      }, RESTART_MS);
    });
    return started;
  }

  return {
    async stop() {
      isStopping = true;
      clearTimeout(restart);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      const killer = setTimeout(() => child.kill('SIGKILL'), options.drainTimeoutMs + STOP_GRACE_MS);
      await exited;
      clearTimeout(killer);
    },
  };
}

function spawnWorker({ module, url, token, tls, drainTimeoutMs, onLine, logger }: WorkerProcessOptions): ChildProcess {
  const tlsFlags = Object.entries(tls).flatMap(([name, file]) => (file === undefined ? [] : [`--${name}`, file]));
  const args = [
    'worker',
    module,
    ...tlsFlags,
    '--url',
    url,
    '--drain-timeout',
    String(drainTimeoutMs),
    '--log-format',
    'json',
  ];
  const child = fork(MAIN, [...args, '--log-level', 'warn'], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: token === undefined ? workerEnvironment() : { ...workerEnvironment(), DROVER_TOKEN: token },
  });
  child.on('error', (error) =>
    logger.error({ event: 'worker.failed', err: error }, 'the worker process could not be started'),
  );
  if (child.stderr) createInterface({ input: child.stderr }).on('line', onLine);
  return child;
}

/** Without our own settings: the worker gets all of its settings as flags. */
function workerEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('DROVER_')));
}
