/** Every block of TypeScript in the guides and the READMEs of the packages compiles as it stands, as strictly as our own code. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { codeBlocks, ROOT, readPage } from './support/page.js';

const GUIDES = readdirSync(join(ROOT, 'docs/guides')).map((file) => `docs/guides/${file}`);
const PAGES = [...GUIDES, 'docs/getting-started.md', 'packages/sdk/README.md', 'packages/protocol/README.md'];

describe('the TypeScript of the guides', () => {
  it('compiles', () => {
    mkdirSync(join(ROOT, '.drover'), { recursive: true });
    const folder = mkdtempSync(join(ROOT, '.drover/snippets-'));
    try {
      const files = PAGES.flatMap((page) => saveBlocks(page, folder));
      expect(files.length).toBeGreaterThan(10);
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(configFor(files)));
      const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
      const { stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
      expect(stdout).toBe('');
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** A file a block, named for its place; blocks that name a file are saved under that name for those that import it. */
function saveBlocks(page: string, folder: string): string[] {
  const blocks = codeBlocks(readPage(page)).filter(({ language }) => language === 'ts');
  return blocks.map(({ attributes, code, line }) => {
    const name = attributes.file ?? `${page.replaceAll('/', '-').replace('.md', '')}-line-${line}.ts`;
    // with an export it is a module of its own, and its names cannot clash with those of others
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), `${code}export {};\n`);
    return name;
  });
}

function configFor(files: string[]): object {
  return {
    extends: '../../tsconfig.base.json',
    compilerOptions: { noEmit: true, composite: false, incremental: false, lib: ['es2023', 'dom'], types: ['node'] },
    files,
  };
}
