/**
 * The packages as npm would publish them, unpacked into an empty folder. Third-party packages are links to those of
 * the repository, limited to the declared ones and no optional peers; `npm run verify` installs everything from the registry instead.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = ['./packages/protocol', './packages/sdk', './packages/server'];

type Manifest = { name: string; dependencies: Record<string, string> };

export type PackedPackages = {
  /** The folder that has them in its node_modules, and nothing else. */
  readonly folder: string;
  /** The program of the command `drover`. */
  readonly cli: string;
  /** The path and text of every file. */
  files(): { path: string; text: string }[];
  remove(): void;
};

/** `others` are packages that an application installs beside ours. */
export function unpackPackages({ others = [] }: { others?: readonly string[] } = {}): PackedPackages {
  const folder = mkdtempSync(join(tmpdir(), 'drover-packed-'));
  const modules = join(folder, 'node_modules');
  execFileSync('npm', ['pack', '--silent', '--pack-destination', folder, ...SOURCES], { cwd: ROOT, stdio: 'pipe' });
  const archives = readdirSync(folder).filter((file) => file.endsWith('.tgz'));
  const manifests = archives.map((archive) => unpack(join(folder, archive), modules));

  const own = new Set(manifests.map(({ name }) => name));
  const needed = new Set([...manifests.flatMap(({ dependencies }) => Object.keys(dependencies)), ...others]);
  for (const name of needed) {
    if (own.has(name)) continue;
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  }
  for (const name of [...own, ...needed]) linkCommands(modules, name);

  return {
    folder,
    cli: join(modules, 'drover/dist/cli/main.js'),
    files: () => [...own].flatMap((name) => readFiles(join(modules, name))),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function unpack(archive: string, modules: string): Manifest {
  const manifest: Manifest = JSON.parse(
    execFileSync('tar', ['-xzOf', archive, 'package/package.json'], { encoding: 'utf8' }),
  );
  const target = join(modules, manifest.name);
  mkdirSync(target, { recursive: true });
  execFileSync('tar', ['-xzf', archive, '-C', target, '--strip-components=1']);
  return manifest;
}

function linkCommands(modules: string, name: string): void {
  const { bin = {} }: { bin?: Record<string, string> } = JSON.parse(
    readFileSync(join(modules, name, 'package.json'), 'utf8'),
  );
  mkdirSync(join(modules, '.bin'), { recursive: true });
  for (const [command, file] of Object.entries(bin)) {
    symlinkSync(join('..', name, file), join(modules, '.bin', command));
  }
}

function readFiles(folder: string): { path: string; text: string }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path, text: readFileSync(path, 'utf8') }));
}
