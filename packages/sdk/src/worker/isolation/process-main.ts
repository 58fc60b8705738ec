/**
 * The program of an isolated handler's process: `process-main.js <module> <job type> <memory limit in bytes>`. The
 * watchdog starts first, so that even a module that blocks while it is loaded dies with the worker. Then the handler
 * is loaded, and jobs run one after the other by the same `Runner` as in-process.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { TimeoutError } from '../../errors.js';
import { JOB, type RunnableJob } from '../../job-definition.js';
import { Attempt, InterruptedError } from '../attempt.js';
import { Runner } from '../runner.js';
import { markAsIsolated } from './inside.js';
import { jobsOf } from './jobs-of.js';
import { Leftovers } from './leftovers.js';
import { type FromProcess, MARK_VARIABLE, type ToProcess, toProcessMessage } from './messages.js';
import { ProcessServices } from './process-services.js';
import { killOwnTree } from './process-tree.js';

/** The thread does little work, so its memory is negligible compared with the handler's. */
const WATCHDOG_LIMITS = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 };

const [, , module = '', type = '', memoryBytes = '0'] = process.argv;
const mark = process.env[MARK_VARIABLE] ?? '';
const services = new ProcessServices();
let current: Attempt | undefined;

process.title = `drover ${type}`;
process.on('disconnect', () => killOwnTree(mark));
markAsIsolated();
await startWatchdog();
const job = await loadJob();
const runner = new Runner({ jobs: [job], services, logger: services.logger });
const leftovers = new Leftovers();
process.on('message', (raw) => received(toProcessMessage(raw)));
send({ kind: 'ready' });

function received(message: ToProcess | undefined): void {
  switch (message?.kind) {
    case 'run':
      current = new Attempt(message.assignment);
      void run(current);
      return;
    case 'interrupt':
      current?.interrupt(message.reason, interruption(message.code, message.message));
      return;
    case 'end':
      // Runs the module's exit handlers. Its timers and sockets do not keep the process alive.
      process.exit();
  }
}

async function run(attempt: Attempt): Promise<void> {
  const outcome = await runner.run(attempt);
  current = undefined;
  services.flush();
  send({ kind: 'ended', outcome, leftovers: leftovers.count() });
}

function interruption(code: InterruptedError['code'], message: string): Error {
  return code === 'timeout' ? new TimeoutError(message) : new InterruptedError(code, message);
}

async function startWatchdog(): Promise<void> {
  const watchdog = new Worker(new URL('./watchdog.js', import.meta.url), {
    workerData: { mark, memoryBytes: Number(memoryBytes) },
    resourceLimits: WATCHDOG_LIMITS,
    // Without the handler's loaders, because the thread must start fast.
    execArgv: [],
    env: {},
  });
  await once(watchdog, 'message');
  watchdog.unref();
  // Without the watchdog, the process would not notice the end of the worker.
  watchdog.on('exit', () => killOwnTree(mark));
}

async function loadJob(): Promise<RunnableJob> {
  try {
    const found = jobsOf((await import(module)) as object, module).find((candidate) => candidate.type === type);
    if (found === undefined) throw new Error(`the module exports no handler of "${type}"`);
    // This process is the isolation.
    return { ...found, [JOB]: { ...found[JOB], isolation: undefined } };
  } catch (error) {
    const { message, stack = message } = error instanceof Error ? error : new Error(String(error));
    await new Promise((resolve) => process.send?.({ drover: { kind: 'unusable', message, stack } }, resolve));
    process.exit(1);
  }
}

function send(message: FromProcess): void {
  services.send(message);
}
