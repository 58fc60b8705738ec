/** Who may read and change a file of settings or secrets, by its owner and mode. Windows has neither. */
import { ConfigError } from './config-error.js';

/** From `stat`. */
export type Access = { uid: number; mode: number };

const ROOT = 0;
const WRITABLE_BY_OTHERS = 0o022;
const OPEN_TO_OTHERS = 0o077;
const READABLE_BY_ALL = 0o004;

/** Throws unless the file belongs to this user or root, and only its owner may write it. */
export function checkAccess(path: string, access: Access, ourUid = process.geteuid?.()): void {
  checkOwner(path, access, ourUid);
  if (ourUid === undefined || (access.mode & WRITABLE_BY_OTHERS) === 0) return;
  throw new ConfigError(
    `configuration file ${path} can be changed by other users (mode ${octal(access.mode)}): run: chmod go-w ${path}`,
  );
}

/** Throws unless the file belongs to this user or root. */
export function checkOwner(path: string, { uid }: Access, ourUid = process.geteuid?.()): void {
  if (ourUid === undefined || uid === ourUid || uid === ROOT) return;
  throw new ConfigError(
    `configuration file ${path} belongs to another user (id ${uid}), expected yours (${ourUid}) or root: ` +
      `if you trust its content, run: chown ${ourUid} ${path}`,
  );
}

/** What to do about a file with secrets. Undefined if others cannot read it. */
export function readableByOthers(
  path: string,
  { uid, mode }: Access,
  ourUid = process.geteuid?.(),
): string | undefined {
  if (ourUid === undefined) return undefined;
  // a file of root that this user reads must be open to its group
  const tooOpen = uid === ourUid ? OPEN_TO_OTHERS : READABLE_BY_ALL;
  if ((mode & tooOpen) === 0) return undefined;
  const better = uid === ourUid ? '600' : '640';
  return `can be read by other users (mode ${octal(mode)}): run: chmod ${better} ${path}`;
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8);
}
