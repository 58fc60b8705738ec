/**
 * One process per data folder: a lock file names the owner by its process id and, on Linux, by its start time,
 * because ids are reused (in a container every process has the same one).
 *
 * Whether the owner lives can only be checked on the same host. On Linux, a host that was renamed meanwhile is
 * recognised by its boot id and its namespace of process ids. An owner on another host cannot be checked, and a
 * person must decide: two processes must never write one journal.
 *
 * Takeover from a dead process: the new process leaves the dead one's lock in place and adds its own, named after the
 * content of the dead lock. A file can be created only once, so exactly one of several competing processes succeeds;
 * removing the old lock first would let two succeed. The winner then puts its lock over the first one and removes the
 * intermediate locks. A process that followed the old chain finds that the first lock has changed.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DroverError } from '@drover/protocol';
import { PRIVATE_FILE } from './private-folder.js';

/** A process can lose the race for a lock to another one. More retries than this are not plausible. */
const MAX_TRIES = 5;
/** Index in `/proc/<pid>/stat` after the name in brackets, which may itself contain spaces. */
const START_TIME_FIELD = 19;

/** `processes` identifies the namespace of its process id; undefined where that is not available. */
type Owner = { pid: number; host: string; startedAt: string | undefined; processes: string | undefined };

export type FolderLock = { release(): Promise<void> };

export async function lockFolder(folder: string): Promise<FolderLock> {
  const head = join(folder, 'lock');
  const draft = `${head}.${process.pid}.${randomBytes(4).toString('hex')}`;
  const owner = { ...ownerOf(process.pid), token: randomUUID() };
  await writeFile(draft, `${JSON.stringify(owner)}\n`, { flag: 'wx', mode: PRIVATE_FILE });
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const dead = await deadOwners(head, folder);
      const path = dead.at(-1)?.successor ?? head;
      if (!(await tryTake(draft, path))) continue;
      if (await isAsFound(head, dead)) {
        if (dead.length > 0) await rename(draft, head);
        for (const { successor } of dead) await rm(successor, { force: true });
        return { release: () => rm(head, { force: true }) };
      }
      // Another lock was put over the first one.
      await rm(path, { force: true });
    }
  } finally {
    await rm(draft, { force: true });
  }
  throw inUse(folder, 'several processes try to lock it at once');
}

type DeadOwner = { text: string; successor: string };

/** Previous owners, first to last. Throws if the last one is alive. */
async function deadOwners(head: string, folder: string): Promise<DeadOwner[]> {
  const dead: DeadOwner[] = [];
  for (let path = head; ; ) {
    const text = await readIfThere(path);
    if (text === undefined) return dead;
    refuseIfAlive(text, folder, path);
    path = `${head}.${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
    dead.push({ text, successor: path });
  }
}

async function isAsFound(head: string, dead: readonly DeadOwner[]): Promise<boolean> {
  const [first] = dead;
  return first === undefined || (await readIfThere(head)) === first.text;
}

/** A link is created completely or not at all, and never over an existing file. */
async function tryTake(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function refuseIfAlive(text: string, folder: string, path: string): void {
  const owner = parseOwner(text);
  if (owner === undefined)
    throw inUse(folder, `its lock file ${path} cannot be read; remove that file if no worker runs`);
  if (!isVisible(owner)) {
    throw inUse(
      folder,
      `process ${owner.pid} on ${owner.host} uses it; if that process no longer exists, remove ${path}`,
    );
  }
  if (isAlive(owner)) throw inUse(folder, `process ${owner.pid} uses it`);
}

/** Whether we would see the process if it ran. A namespace's name is reused only after its last process has ended. */
function isVisible({ host, processes }: Owner): boolean {
  return host === hostname() || (processes !== undefined && processes === processSpace());
}

function isAlive(owner: Owner): boolean {
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    // No permission to signal it, so it exists.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return owner.startedAt === undefined || startTimeOf(owner.pid) === owner.startedAt;
}

function ownerOf(pid: number): Owner {
  return { pid, host: hostname(), startedAt: startTimeOf(pid), processes: processSpace() };
}

function processSpace(): string | undefined {
  try {
    return `${bootId()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    // Not Linux.
    return undefined;
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
}

/** Start time of the process in ticks since the boot, with the boot id. Undefined where not available. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return `${bootId()} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[START_TIME_FIELD]}`;
  } catch {
    // Not Linux, or the process has just ended: only the id is known.
    return undefined;
  }
}

function parseOwner(text: string): Owner | undefined {
  try {
    return JSON.parse(text) as Owner;
  } catch {
    // The caller refuses and reports it.
    return undefined;
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function inUse(folder: string, why: string): DroverError {
  return new DroverError('wrong_state', `journalDir: folder ${folder} belongs to another worker: ${why}`);
}
