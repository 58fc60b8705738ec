/** A worker as a process: `programs/worker.mjs`, built on the SDK as an application would be. */
import { fileURLToPath } from 'node:url';
import { type OwnedProcess, startProcess } from './owned-process.js';

const PROGRAM = fileURLToPath(new URL('./programs/worker.mjs', import.meta.url));

export type WorkerProcessOptions = {
  name: string;
  url: string | readonly string[];
  /** The file in which it records what it runs. */
  witness: string;
  slots?: number;
  queues?: readonly string[];
  /** The handlers that it offers. Default: all of the program. */
  types?: readonly string[];
  prefetch?: number;
  drainTimeout?: string;
  token?: string;
  ca?: string;
  cert?: string;
  key?: string;
  ignorePause?: boolean;
  /** The folder of its journal. Default: no journal. */
  journalDir?: string;
};

export type WorkerProcess = OwnedProcess & {
  /** Releases every handler that waits at this gate, now and later. */
  open(gate: string): void;
};

export function launchWorker(options: WorkerProcessOptions): WorkerProcess {
  const started = startProcess(`worker ${options.name}`, PROGRAM, [], { WORKER_OPTIONS: JSON.stringify(options) });
  return Object.assign(started, { open: (gate: string) => started.tell({ open: gate }) });
}
