/**
 * PostgreSQL refuses to run as root, so root starts it as another user: the owner of the existing data, else of the
 * folder that will contain it, else a user created for this.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const PREFERRED_USERS = ['postgres', 'nobody'];
const MAX_OUTPUT_CHARS = 20_000;

/** Undefined: the current user. */
export type User = { uid: number; gid: number } | undefined;

export async function chooseUser(cluster: string): Promise<User> {
  const own = process.getuid?.();
  const owner = await ownerOf(cluster);
  if (own !== 0) {
    if (owner && own !== undefined && owner.uid !== own) {
      throw new Error(
        `the database in ${cluster} belongs to user id ${owner.uid}, this is user id ${own}: ` +
          'start as that user or as root, or use another data folder',
      );
    }
    return undefined;
  }
  if (owner && owner.uid !== 0) return owner;

  // initdb looks its user up by id, so only users that the system knows are possible.
  const known = await knownUsers();
  const near = await ownerOfNearestFolder(cluster);
  const user =
    known.find(({ uid }) => uid === near.uid) ??
    PREFERRED_USERS.map((name) => known.find((candidate) => candidate.name === name)).find(Boolean) ??
    known[0];
  if (user) return { uid: user.uid, gid: user.gid };
  throw new Error(
    'PostgreSQL does not run as root and this system has no other user: start as another user or give a database URL',
  );
}

async function ownerOf(path: string): Promise<{ uid: number; gid: number } | undefined> {
  return stat(path).then(
    ({ uid, gid }) => ({ uid, gid }),
    () => undefined,
  );
}

async function ownerOfNearestFolder(path: string): Promise<{ uid: number; gid: number }> {
  const parent = dirname(path);
  return (await ownerOf(parent)) ?? (parent === path ? { uid: 0, gid: 0 } : ownerOfNearestFolder(parent));
}

/** The users of this system except root. */
async function knownUsers(): Promise<{ name: string; uid: number; gid: number }[]> {
  const passwd = await readFile('/etc/passwd', 'utf8').catch(() => '');
  return passwd
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && uid > 0 && gid > 0);
}

export function spawnAs(user: User, command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  // The caller's own variables (PGDATA, LC_ALL, TZ …) must not affect the database.
  const env = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };
  return spawn(command, args, { ...options, ...user, env });
}

export type CommandOutcome = { ok: boolean; output: string };

/** Runs a short command to its end. Never throws: errors are in the output. */
export function runAs(
  user: User,
  command: string,
  args: readonly string[],
  options: { cwd?: string; input?: string } = {},
): Promise<CommandOutcome> {
  return new Promise((resolve) => {
    const child = spawnAs(user, command, args, { cwd: options.cwd ?? '/', stdio: 'pipe' });
    let output = '';
    const collect = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-MAX_OUTPUT_CHARS);
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    child.on('error', (error) => resolve({ ok: false, output: error.message }));
    child.on('close', (code) => resolve({ ok: code === 0, output: output.trim() }));
    // A command that ends without reading its input is judged by its exit code.
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input ?? '');
  });
}
