/**
 * Only the worker's user may read the journal: it contains results and errors of jobs. The folder gets mode 0700 and
 * each file 0600, also those of an earlier version. A folder that others use too keeps its mode; its files do not.
 *
 * Where the user may not change modes (a mounted volume), the worker starts and says so.
 */
import { chmod, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Logger } from '../../logger.js';

export const PRIVATE_FILE = 0o600;
const PRIVATE_FOLDER = 0o700;
/** The permissions of everyone but the owner. */
const OTHERS = 0o077;
/** The files that the journal and its lock create. */
const OWN_FILE = /^(?:journal|lock)(?:\.|$)/;

export async function openPrivateFolder(folder: string, logger: Logger): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  await mkdir(folder, { recursive: true, mode: PRIVATE_FOLDER });
  // Windows has no such modes.
  if (process.platform === 'win32') return;
  const names = await readdir(folder);
  const own = names.filter((name) => OWN_FILE.test(name));
  if (own.length === names.length) await tighten(folder, PRIVATE_FOLDER, logger);
  for (const name of own) await tighten(join(folder, name), PRIVATE_FILE, logger);
}

async function tighten(path: string, mode: number, logger: Logger): Promise<void> {
  try {
    const { mode: present } = await stat(path);
    if ((present & OTHERS) !== 0) await chmod(path, mode);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // Another process that wants the folder has removed its lock.
    if (code === 'ENOENT') return;
    logger.warn(
      { event: 'journal.exposed', path, reason: message },
      'other users may read the journal, and this user cannot change that',
    );
  }
}
