/** The rooms of the code and who may import whom, as ARCHITECTURE.md says, against the imports that are there. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** A folder or file of the table, and the rooms that it may import besides itself. */
export type Room = { path: string; mayImport: ReadonlySet<string> };
export type Import = { from: string; to: string };

/** Rows of the module map: | `path` | what it is | `room`, `room` |. A room is named by its path without the folder `src` around it. */
export function readRooms(architecture: string): Room[] {
  const [, map = ''] = architecture.split('## Module map');
  const [section = ''] = map.split('\n## ');
  return section
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .filter(([, path = '']) => /^`packages\//.test(path))
    .map(([, path = '', , rooms = '']) => ({
      path: path.replaceAll('`', ''),
      mayImport: new Set([...rooms.matchAll(/`([^`]+)`/g)].map(([, room = '']) => room)),
    }));
}

/** `packages/server/src/db` is `db`, `packages/sdk/src` is `sdk`. */
export function nameOf({ path }: Room): string {
  const [, name = path, inside] = /^packages\/(\w+)(?:\/src(?:\/(.+))?)?$/.exec(path) ?? [];
  return (inside ?? name).replace(/\.ts$/, '');
}

const IMPORT = /^\s*(?:import|export)\b[^'"]*?\bfrom\s+'([^']+)'|^\s*import\s+'([^']+)'|\bimport\('([^']+)'\)/gm;
const PACKAGES: Readonly<Record<string, string>> = {
  '@drover/protocol': 'packages/protocol/src',
  '@drover/sdk': 'packages/sdk/src',
};

/** Every import of a source file of ours by another, as paths from `root`. */
export function readImports(root: string, folders: readonly string[]): Import[] {
  return folders.flatMap((folder) =>
    sourceFiles(join(root, folder)).flatMap((file) => {
      const from = relative(root, file);
      return importsOf(readFileSync(file, 'utf8')).flatMap((specifier) => {
        const to = targetOf(from, specifier);
        return to === undefined ? [] : [{ from, to }];
      });
    }),
  );
}

export function importsOf(text: string): string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '');
  return [...code.matchAll(IMPORT)].map(([, one, two, three]) => one ?? two ?? three ?? '');
}

/** Undefined for a package that is not ours. */
function targetOf(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return join(dirname(from), specifier).replace(/\.js$/, '.ts');
  const [scope, name] = specifier.split('/');
  return PACKAGES[`${scope}/${name}`];
}

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The room of a file: the entry of the table with the longest path that contains it. */
export function roomOf(rooms: readonly Room[], file: string): Room | undefined {
  return rooms
    .filter(({ path }) => file === path || file.startsWith(`${path}/`))
    .sort((one, other) => other.path.length - one.path.length)[0];
}

/** What is against the table, one line for each file and room. */
export function findBroken(rooms: readonly Room[], imports: readonly Import[]): string[] {
  const broken = imports.flatMap(({ from, to }) => {
    const [own, other] = [roomOf(rooms, from), roomOf(rooms, to)];
    if (own === undefined) return [`${from} is in no room of ARCHITECTURE.md`];
    if (other === undefined) return [`${from} imports ${to}, which is in no room of ARCHITECTURE.md`];
    return own === other || own.mayImport.has(nameOf(other)) ? [] : [`${from} imports ${nameOf(other)} (${to})`];
  });
  return [...new Set(broken)].sort();
}

/** Files that import each other in a circle, one line per circle. */
export function findCycles(imports: readonly Import[]): string[] {
  const targets = new Map<string, string[]>();
  for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to]);
  const done = new Set<string>();
  const cycles = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file);
    if (start >= 0) {
      const circle = path.slice(start);
      const first = circle.indexOf([...circle].sort()[0] as string);
      cycles.add([...circle.slice(first), ...circle.slice(0, first)].join(' → '));
      return;
    }
    if (done.has(file)) return;
    for (const target of targets.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of targets.keys()) visit(file, []);
  return [...cycles].sort();
}
