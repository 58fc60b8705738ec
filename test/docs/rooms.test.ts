/** ARCHITECTURE.md says which folder may import which: the imports keep to it, and no files import each other in a circle. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findBroken, findCycles, importsOf, readImports, readRooms } from './support/rooms.js';

const root = join(import.meta.dirname, '../..');
const FOLDERS = ['packages/protocol/src', 'packages/sdk/src', 'packages/server/src'];
const rooms = readRooms(readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8'));
const imports = readImports(root, FOLDERS);

describe('the sources', () => {
  it('import only what their room may import', () => {
    expect(imports.length).toBeGreaterThan(500);
    expect(findBroken(rooms, imports)).toEqual([]);
  });

  it('do not import each other in circles', () => {
    expect(findCycles(imports)).toEqual([]);
  });
});

describe('the check', () => {
  const made = readRooms(
    '## Module map\n\n| room | what | may import |\n| --- | --- | --- |\n| `packages/a` | – | `b` |\n| `packages/b` | – | nothing |\n\n## Next',
  );

  it('finds an import that the table does not allow', () => {
    const bad = [
      { from: 'packages/a/one.ts', to: 'packages/b/two.ts' },
      { from: 'packages/b/two.ts', to: 'packages/a/one.ts' },
      { from: 'packages/c/three.ts', to: 'packages/a/one.ts' },
    ];
    expect(findBroken(made, bad)).toEqual([
      'packages/b/two.ts imports a (packages/a/one.ts)',
      'packages/c/three.ts is in no room of ARCHITECTURE.md',
    ]);
  });

  it('finds circles of two and three files', () => {
    const pairs = ['a b', 'b a', 'c d', 'd e', 'e c', 'e f'].map((pair) => pair.split(' ') as [string, string]);
    expect(findCycles(pairs.map(([from, to]) => ({ from, to })))).toEqual(['a → b', 'c → d → e']);
  });

  it('reads every form of import, and none in comments', () => {
    const text = `
      import a from './a.js';
      import { b,
        c } from './b.js';
      import type { D } from './d.js';
      export { e } from './e.js';
      import './f.js';
      const g = await import('./g.js');
      /* import x from './x.js'; */`;
    expect(importsOf(text)).toEqual(['./a.js', './b.js', './d.js', './e.js', './f.js', './g.js']);
  });
});
