/** Runs a worker as a process until a signal stops it. */
import { constants } from 'node:os';
import type { Worker } from './worker.js';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
/**
 * Ctrl-C reaches every process of the terminal, and npm passes it on to its child again. So a signal that follows
 * within this time is the same one.
 */
const SAME_SIGNAL_MS = 1000;

/**
 * Starts the worker and resolves when it has stopped. The first SIGTERM or SIGINT drains it; a later one ends the
 * process at once. The process belongs to the worker, so `onLeaseLost` defaults to `exit`.
 */
export async function runWorker(worker: Worker): Promise<void> {
  const asked = new AbortController();
  let askedAt = 0;
  const onSignal = (signal: (typeof SIGNALS)[number]) => {
    if (!asked.signal.aborted) {
      askedAt = performance.now();
      asked.abort();
    } else if (performance.now() - askedAt > SAME_SIGNAL_MS) {
      process.exit(128 + constants.signals[signal]);
    }
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  try {
    await startUnlessAsked(worker, asked.signal);
    if (!asked.signal.aborted) await untilAskedOrStopped(worker, asked.signal);
    // A handler that does not end must end with its process, because another worker will get its job.
    if (!(await worker.stop())) process.exit(1);
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

async function startUnlessAsked(worker: Worker, signal: AbortSignal): Promise<void> {
  try {
    await worker.start({ signal, ownsProcess: true });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function untilAskedOrStopped(worker: Worker, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const onState = (state: string) => {
      if (state === 'draining' || state === 'stopped') done();
    };
    const done = () => {
      forget();
      resolve();
    };
    const forget = worker.on('state', onState);
    signal.addEventListener('abort', done, { once: true });
    onState(worker.state);
  });
}
