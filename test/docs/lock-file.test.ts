/** The lock files: `npm ci` must work in a fresh clone on every platform that the dependencies support. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { minVersion } from 'semver';
import { describe, expect, it } from 'vitest';
import { type LockFile, lockFileFaults } from './support/lock-file.js';
import { ROOT } from './support/page.js';

const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'] as const;
/** The benchmark brings its own Node, see scripts/bench.mjs. */
const NODE_OF_BENCH = '22.18.0';

const readJson = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
const oldestNode = minVersion(readJson('package.json').engines.node)?.version ?? '';

describe.each([
  ['.', oldestNode],
  ['bench', NODE_OF_BENCH],
])('the lock file in %s', (folder, node) => {
  const lock: LockFile = readJson(join(folder, 'package-lock.json'));
  const workspaces = Object.keys(lock.packages).filter((path) => !path.includes('node_modules'));

  it('has the packages of every platform', () => {
    const { overrides } = readJson(join(folder, 'package.json'));
    expect(lockFileFaults(lock, node, overrides)).toEqual([]);
  });

  it('has the dependencies of every package.json', () => {
    for (const workspace of workspaces) {
      const path = join(folder, workspace, 'package.json');
      const manifest = readJson(path);
      for (const kind of KINDS) expect(lock.packages[workspace]?.[kind], `${kind} of ${path}`).toEqual(manifest[kind]);
    }
  });
});

describe('the check of a lock file', () => {
  it('finds nothing in a complete one', () => {
    expect(lockFileFaults(complete(), '20.19.0')).toEqual([]);
  });

  it('lets an override replace the range of a dependency', () => {
    const lock = complete();
    change(lock.packages, 'node_modules/part', { version: '2.9.0' });
    change(lock.packages, 'node_modules/tool/node_modules/part', { version: '2.9.0' });
    change(lock.packages, 'node_modules/tool-linux-x64/node_modules/part', { version: '2.9.0' });
    expect(lockFileFaults(lock, '20.19.0', { part: '2.9.0' })).toEqual([]);
    expect(lockFileFaults(lock, '20.19.0')).toHaveLength(3);
  });

  it.each<[string, (packages: LockFile['packages']) => void, string]>([
    [
      'the package of another platform is missing',
      (packages) => delete packages['node_modules/tool-darwin-arm64'],
      'node_modules/tool depends on tool-darwin-arm64 2.0.0, which has no entry',
    ],
    [
      'a dependency is missing',
      (packages) => delete packages['node_modules/tool/node_modules/part'],
      'node_modules/tool depends on part ^1.2.0, but its entry is 3.0.0',
    ],
    [
      'a dependency of a workspace is missing',
      (packages) => delete packages['node_modules/part'],
      'packages/app depends on part ^3.0.0, which has no entry',
    ],
    [
      'a required peer is missing',
      (packages) => delete packages['node_modules/peer'],
      'node_modules/tool depends on peer *, which has no entry',
    ],
    [
      'a platform has another version than its parent asks for',
      (packages) => change(packages, 'node_modules/tool-darwin-arm64', { version: '2.0.1' }),
      'node_modules/tool depends on tool-darwin-arm64 2.0.0, but its entry is 2.0.1',
    ],
    [
      'an integrity is missing',
      (packages) => delete packages['node_modules/part']?.integrity,
      'node_modules/part has no integrity',
    ],
    [
      'an address is written down',
      (packages) => change(packages, 'node_modules/part', { resolved: 'https://registry.example/part-3.0.0.tgz' }),
      'node_modules/part has the address https://registry.example/part-3.0.0.tgz',
    ],
    [
      'a package asks for a newer Node',
      (packages) => change(packages, 'node_modules/part', { engines: { node: '^20.20.0 || >=22' } }),
      'node_modules/part asks for Node ^20.20.0 || >=22',
    ],
  ])('notices that %s', (_, plant, fault) => {
    const lock = complete();
    plant(lock.packages);
    expect(lockFileFaults(lock, '20.19.0')).toEqual([fault]);
  });
});

function change(packages: LockFile['packages'], path: string, by: LockFile['packages'][string]): void {
  packages[path] = { ...packages[path], ...by };
}

function complete(): LockFile {
  const integrity = 'sha512-AAAA';
  return {
    packages: {
      '': { devDependencies: { tool: '^2.0.0' } },
      'packages/app': { version: '0.1.0', dependencies: { part: '^3.0.0' }, engines: { node: '>=20.19' } },
      'packages/cli': { version: '0.1.0', dependencies: { app: '0.1.0' } },
      'node_modules/app': { resolved: 'packages/app', link: true },
      'node_modules/cli': { resolved: 'packages/cli', link: true },
      'node_modules/part': { version: '3.0.0', integrity, engines: { node: '>= 10' } },
      'node_modules/peer': { version: '1.0.0-beta.1', integrity },
      'node_modules/tool': {
        version: '2.0.0',
        integrity,
        dependencies: { part: '^1.2.0' },
        optionalDependencies: { 'tool-darwin-arm64': '2.0.0', 'tool-linux-x64': '2.0.0' },
        peerDependencies: { peer: '*', other: '*' },
        peerDependenciesMeta: { other: { optional: true } },
      },
      'node_modules/tool-darwin-arm64': { version: '2.0.0', integrity },
      'node_modules/tool-linux-x64': { version: '2.0.0', integrity, dependencies: { part: '^1.0.0' } },
      'node_modules/tool-linux-x64/node_modules/part': { version: '1.2.0', integrity: '', inBundle: true },
      'node_modules/tool/node_modules/part': { version: '1.2.0', integrity },
    },
  };
}
