/** What makes `npm ci` refuse a lock file, or lets it install something else than was locked. */
import { satisfies } from 'semver';

type Versions = Record<string, string>;
type Entry = {
  version?: string;
  resolved?: string;
  integrity?: string;
  link?: boolean;
  inBundle?: boolean;
  engines?: { node?: string };
  dependencies?: Versions;
  devDependencies?: Versions;
  optionalDependencies?: Versions;
  peerDependencies?: Versions;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
};
export type LockFile = { packages: Record<string, Entry> };

/**
 * One sentence for each fault. `node` is the oldest Node that must be able to install every package; `overrides` are
 * those of package.json, which replace the range of every dependency on the package.
 */
export function lockFileFaults(lock: LockFile, node: string, overrides: Versions = {}): string[] {
  return Object.entries(lock.packages).flatMap(([path, entry]) => [
    ...entryFaults(path, entry, node),
    ...dependencyFaults(lock, path, wanted(entry), overrides),
  ]);
}

function entryFaults(path: string, entry: Entry, node: string): string[] {
  const faults: string[] = [];
  if (/^[a-z+]+:/.test(entry.resolved ?? '')) faults.push(`${path} has the address ${entry.resolved}`);
  if (isFromRegistry(path, entry)) {
    if (!entry.version) faults.push(`${path} has no version`);
    // a package inside the archive of another one is covered by the integrity of that archive
    if (!entry.integrity && !entry.inBundle) faults.push(`${path} has no integrity`);
  }
  const asked = entry.engines?.node;
  if (asked !== undefined && !satisfies(node, asked)) faults.push(`${path} asks for Node ${asked}`);
  return faults;
}

function isFromRegistry(path: string, entry: Entry): boolean {
  return path.includes('node_modules/') && !entry.link;
}

/** Optional dependencies count in full: npm installs few of them on one platform, but needs the entries of all. */
function dependencyFaults(lock: LockFile, path: string, versions: Versions, overrides: Versions): string[] {
  return Object.entries(versions).flatMap(([name, declared]) => {
    const range = overrides[name] ?? declared;
    const found = resolve(lock, path, name);
    const from = path || 'the repository';
    if (found === undefined) return [`${from} depends on ${name} ${range}, which has no entry`];
    if (satisfies(found.version ?? '', range, { includePrerelease: true })) return [];
    return [`${from} depends on ${name} ${range}, but its entry is ${found.version}`];
  });
}

function wanted(entry: Entry): Versions {
  const peers = Object.entries(entry.peerDependencies ?? {}).filter(
    ([name]) => !entry.peerDependenciesMeta?.[name]?.optional,
  );
  return {
    ...Object.fromEntries(peers),
    ...entry.devDependencies,
    ...entry.dependencies,
    ...entry.optionalDependencies,
  };
}

/** As Node looks a package up: in the node_modules of the folder, then of each folder above it. */
function resolve(lock: LockFile, path: string, name: string): Entry | undefined {
  const folders = path.split('/');
  for (let depth = folders.length; depth >= 0; depth--) {
    const found = lock.packages[[...folders.slice(0, depth), 'node_modules', name].join('/')];
    if (found) return found.link ? lock.packages[found.resolved ?? ''] : found;
  }
  return undefined;
}
