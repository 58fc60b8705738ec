/** `drover node` as a process: a server and a worker with the handlers of the scenarios in one. */
import { fileURLToPath } from 'node:url';
import { launchServer, type ServerOptions, type ServerProcess } from './start-server.js';
import type { WorkerProcess } from './start-worker.js';

const JOBS = fileURLToPath(new URL('./programs/jobs.mjs', import.meta.url));

export type NodeOptions = ServerOptions & {
  name: string;
  /** The file in which its handlers record what they do. */
  witness: string;
  /** Flags without a value, by their key. */
  switches?: readonly string[];
};

export type NodeProcess = ServerProcess & WorkerProcess;

/** Starts a node without waiting until it answers. */
export async function launchNode({
  name,
  witness,
  switches = [],
  flags,
  env,
  ...options
}: NodeOptions): Promise<NodeProcess> {
  const node = await launchServer({
    ...options,
    command: ['node', '--worker', JOBS, '--worker-name', name, ...switches.map((key) => `--${key}`)],
    flags: { ...flags },
    env: { WORKER_OPTIONS: JSON.stringify({ name, witness }), ...env },
  });
  return Object.assign(node, { open: (gate: string) => node.tell({ open: gate }) });
}
