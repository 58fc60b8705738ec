/**
 * One process owns a data folder. The lock is a file that names its owner. It is created by `link`, which is atomic,
 * and is valid only while that process lives, so no cleanup by hand is needed after a kill or a power failure.
 *
 * Rejected: an advisory lock inside the database (it exists only once the database runs, and the danger is that two
 * start), and a Unix socket (its path is limited to about a hundred characters).
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { processIdentity } from './processes.js';

const LOCK_FILE = 'owner.json';
const MAX_TRIES = 10;

type Owner = { pid: number; identity: string };

/** Takes the folder, or throws an error that names its owner. Returns the function that releases it. */
export async function takeOwnership(folder: string): Promise<() => Promise<void>> {
  const lock = join(folder, LOCK_FILE);
  const mine = join(folder, `${LOCK_FILE}.${randomUUID()}`);
  const owner: Owner = { pid: process.pid, identity: (await processIdentity(process.pid)) ?? '' };
  await writeFile(mine, JSON.stringify(owner), { mode: 0o600 });
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (await linkIfFree(mine, lock)) return () => rm(lock, { force: true });
      const holder = await readOwner(lock);
      if (holder && (await processIdentity(holder.pid)) === holder.identity) {
        throw new Error(`the database in ${folder} is in use by process ${holder.pid}: stop it or use another folder`);
      }
      await removeDeadLock(lock, holder);
    }
    throw new Error(`cannot lock ${folder}: other processes take and leave it all the time`);
  } finally {
    await rm(mine, { force: true });
  }
}

async function linkIfFree(mine: string, lock: string): Promise<boolean> {
  try {
    await link(mine, lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Moves the lock away before deleting it. If it is a new owner's lock by then, it is moved back. */
async function removeDeadLock(lock: string, judged: Owner | undefined): Promise<void> {
  const aside = `${lock}.${randomUUID()}`;
  try {
    await rename(lock, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  const moved = await readOwner(aside);
  if (moved?.pid !== judged?.pid || moved?.identity !== judged?.identity) await linkIfFree(aside, lock);
  await rm(aside, { force: true });
}

/** Undefined if there is no valid lock file; then there is no proven owner. */
async function readOwner(file: string): Promise<Owner | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'));
    if (typeof value !== 'object' || value === null || !('pid' in value) || !('identity' in value)) return undefined;
    return { pid: Number(value.pid), identity: String(value.identity) };
  } catch {
    return undefined;
  }
}
