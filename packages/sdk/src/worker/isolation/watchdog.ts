/**
 * A thread in the process of an isolated handler. It works even when the handler blocks its own thread. It kills the
 * process with all its descendants
 * - when the worker is gone: the kernel closes the lifeline, also after a SIGKILL of the worker;
 * - when process and descendants together exceed the memory limit; it says so on the lifeline first.
 *
 * Memory is measured, not limited by the kernel. V8 reserves far more address space than it uses, so `ulimit -v`
 * fails at the start of Node. `RLIMIT_DATA` ends in aborts without a reason and needs a program (`prlimit`) that may
 * be missing. A cgroup needs rights. The measure is resident memory; pages shared by several processes count for
 * each. Descendants are counted on Linux only.
 */
import { readdirSync, readFileSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { LIFELINE_FD } from './messages.js';
import { killOwnTree } from './process-tree.js';

const MEASURE_EVERY_MS = 100;
const KIB = 1024;

export type WatchdogData = { mark: string; memoryBytes: number };

const { mark, memoryBytes } = workerData as WatchdogData;

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: true });
const die = () => killOwnTree(mark);
lifeline.on('error', die);
lifeline.on('end', die);
lifeline.on('close', die);
lifeline.resume();

if (memoryBytes > 0) setInterval(checkMemory, MEASURE_EVERY_MS);
parentPort?.postMessage('watching');

function checkMemory(): void {
  const usedBytes = process.memoryUsage.rss() + residentBytesOf(descendants());
  if (usedBytes <= memoryBytes) return;
  try {
    writeSync(LIFELINE_FD, `memory ${usedBytes}\n`);
  } catch {
    // The worker is gone; the message has no reader.
  }
  die();
}

function descendants(): string[] {
  const found: string[] = [];
  let parents = [String(process.pid)];
  while (process.platform === 'linux' && parents.length > 0) {
    parents = parents.flatMap(childrenOf);
    found.push(...parents);
  }
  return found;
}

/** Each thread has its own list. */
function childrenOf(pid: string): string[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.flatMap(
      (thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').match(/\d+/g) ?? [],
    );
  } catch {
    // It has just ended.
    return [];
  }
}

function residentBytesOf(pids: string[]): number {
  let bytes = 0;
  for (const pid of pids) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'latin1');
      bytes += Number(/^VmRSS:\s*(\d+)/m.exec(status)?.[1] ?? 0) * KIB;
    } catch {
      // It has just ended.
    }
  }
  return bytes;
}
