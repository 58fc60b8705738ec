/**
 * Kills a process with all its descendants, and detects when all of them are gone.
 *
 * The process leads its own group, which the kernel kills as one; a fork cannot escape that. Descendants that leave
 * the group (something started `detached`, as Puppeteer does with Chrome) are found on Linux by a mark in the
 * environment that every descendant inherits. On other systems they survive, and on Linux they survive if they also
 * clear their environment. A cgroup would catch those too, but needs rights that workers do not have.
 *
 * The marks of all processes of the machine are read once for each process that ends.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { MARK_VARIABLE } from './messages.js';

const FIRST_CHECK_MS = 2;
const MAX_CHECK_MS = 100;
/**
 * States in `/proc/<pid>/stat` of processes that no longer run. A parent that never reaps them must not hold a slot.
 */
const DEAD_STATES = 'ZXx';

export type ProcessTree = { readonly pid: number; readonly mark: string };

/** Kills at once, from any thread outside the tree. */
export function killTree({ pid, mark }: ProcessTree): void {
  killGroup(pid);
  for (const escaped of markedPids(mark)) kill(escaped);
}

/** Kills from inside the tree, including the caller. */
export function killOwnTree(mark: string): void {
  for (const other of markedPids(mark)) if (other !== process.pid) kill(other);
  killGroup(process.pid);
  // Reached only if the process does not lead a group, for example when it was started by hand.
  kill(process.pid);
}

/** Resolves when no process of the tree runs; kills what is left. Call it when the first process has ended. */
export async function untilTreeGone({ pid, mark }: ProcessTree): Promise<void> {
  let hasGroup = true;
  for (let waitMs = FIRST_CHECK_MS; ; waitMs = Math.min(waitMs * 2, MAX_CHECK_MS)) {
    // Once gone, the group is not checked again: its id may have been reused.
    hasGroup &&= isGroupRunning(pid);
    const escaped = markedPids(mark);
    if (!hasGroup && escaped.length === 0) return;
    if (hasGroup) killGroup(pid);
    for (const one of escaped) kill(one);
    await delay(waitMs);
  }
}

function killGroup(pid: number): void {
  // Windows has no process groups.
  kill(process.platform === 'win32' ? pid : -pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Gone already, or not permitted; `untilTreeGone` distinguishes the two.
  }
}

function isGroupRunning(pid: number): boolean {
  if (process.platform === 'win32') return false;
  try {
    process.kill(-pid, 0);
  } catch (error) {
    // Not permitted means that it exists, except on macOS, which answers so for a group of zombies.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM' || process.platform === 'darwin') return false;
  }
  return process.platform !== 'linux' || hasRunningMember(pid);
}

function hasRunningMember(groupId: number): boolean {
  const all = pids();
  // Without `/proc`, zombies cannot be distinguished and count as running.
  if (all.length === 0) return true;
  return all.some((pid) => {
    const stat = readProc(pid, 'stat');
    // The name in parentheses may hold anything; after it come state, parent and group.
    const [state = 'X', , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(group) === groupId && !DEAD_STATES.includes(state);
  });
}

function markedPids(mark: string): number[] {
  if (process.platform !== 'linux') return [];
  const entry = `${MARK_VARIABLE}=${mark}\0`;
  return pids().filter((pid) => readProc(pid, 'environ').includes(entry));
}

function pids(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    // `/proc` is not mounted: only the group can be killed.
    return [];
  }
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    // Gone since the folder was read, or another user's, which no handler of ours can have started.
    return '';
  }
}
