/**
 * Information about other processes of this machine. A pid alone proves nothing, because pids are reused (in a
 * container after each restart), so a process is identified by its pid and its start time.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const CHECK_INTERVAL_MS = 25;
/** Position of the start time in /proc/PID/stat, counted from the field after the command's name. */
const START_TIME_FIELD = 19;

/** A string that is unique to this process, or undefined if there is no such process. */
export async function processIdentity(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return askPs(pid, 'lstart');
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (stat === undefined) return undefined;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const isZombie = fields[0] === 'Z';
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  return isZombie ? undefined : `${boot.trim()}/${fields[START_TIME_FIELD]}`;
}

/** The command line of a process, or undefined if there is no such process. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return askPs(pid, 'args');
  // Not /proc/PID/cwd or exe: root inside a container may not read those of another user.
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return text.replaceAll('\0', ' ').trim() || undefined;
}

async function askPs(pid: number, column: string): Promise<string | undefined> {
  const answer = await promisify(execFile)('ps', ['-o', `${column}=`, '-p', String(pid)]).catch(() => undefined);
  return answer?.stdout.trim() || undefined;
}

export type SignalStep = { signal: NodeJS.Signals; waitMs: number };

/** Sends one signal after the other until the process is gone. Returns false if it survived all of them. */
export async function endProcess(pid: number, steps: readonly SignalStep[]): Promise<boolean> {
  const identity = await processIdentity(pid);
  for (const { signal, waitMs } of steps) {
    if (identity === undefined || (await processIdentity(pid)) !== identity) return true;
    try {
      process.kill(pid, signal);
    } catch {
      // Gone meanwhile, which the next check detects; or not permitted, and then it stays.
    }
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if ((await processIdentity(pid)) !== identity) return true;
      await delay(CHECK_INTERVAL_MS);
    }
  }
  return (await processIdentity(pid)) !== identity;
}
