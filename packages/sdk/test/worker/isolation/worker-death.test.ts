import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { running } from './support.js';

const WORKER = fileURLToPath(new URL('./fixtures/worker-process.mjs', import.meta.url));

let worker: ChildProcess;
afterEach(() => {
  worker.kill('SIGKILL');
});

/** Starts a worker that runs jobs of these types; answers the processes of all of them. */
async function workerRunning(...types: string[]): Promise<number[]> {
  worker = spawn(process.execPath, [WORKER, ...types], { stdio: ['ignore', 'pipe', 'inherit'] });
  const pids: number[] = [];
  let jobs = 0;
  for await (const line of createInterface({ input: worker.stdout as NonNullable<typeof worker.stdout> })) {
    pids.push(...(JSON.parse(line) as { pids: number[] }).pids);
    if (++jobs === types.length) return pids;
  }
  throw new Error('the worker ended before its jobs ran');
}

describe('when the worker dies', () => {
  it.each(['SIGKILL', 'SIGTERM', 'SIGABRT'] as const)(
    'of %s, its isolated handlers die with everything they started, even those that loop forever',
    async (signal) => {
      const pids = await workerRunning('stuck', 'waiting');
      expect(running({ pids })).toHaveLength(5);
      worker.kill(signal);
      await once(worker, 'exit');
      await vi.waitFor(() => expect(running({ pids })).toEqual([]), { timeout: 10_000, interval: 10 });
    },
  );
});
