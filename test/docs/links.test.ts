/** Every relative link and every path of a file that a page names leads somewhere. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { codeWords, ROOT } from './support/page.js';

const SKIPPED = new Set(['node_modules', 'dist', 'coverage', 'results']);
const LINK = /\]\(([^)\s]+)\)/g;
const PATH = /^(packages|test|docs|examples|scripts|bench)\/[\w./-]+$/;

const pages = markdownFiles(ROOT).map((file) => relative(ROOT, file));

describe('every page', () => {
  it('is found', () => {
    for (const page of ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/getting-started.md']) {
      expect(pages).toContain(page);
    }
  });

  it.each(pages)('%s has only links that lead somewhere', (page) => {
    const text = withoutCode(readFileSync(join(ROOT, page), 'utf8'));
    const broken = Array.from(text.matchAll(LINK), ([, link]) => link as string).filter((link) => !leads(page, link));
    expect(broken).toEqual([]);
  });

  it.each(pages)('%s names only files that exist', (page) => {
    // what an installation makes is not there in a fresh clone
    const paths = codeWords(readFileSync(join(ROOT, page), 'utf8')).filter(
      (word) => PATH.test(word) && !/node_modules|dist|results|NNNN|examples\/hello/.test(word),
    );
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it('of the docs can be reached from their index', () => {
    const index = readFileSync(join(ROOT, 'docs/README.md'), 'utf8');
    const linked = Array.from(index.matchAll(LINK), ([, link]) => join('docs', link as string));
    const docs = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
    expect(docs.filter((page) => !linked.includes(page))).toEqual([]);
  });
});

function markdownFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (SKIPPED.has(entry.name) || entry.name.startsWith('.')) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return markdownFiles(path);
    return entry.name.endsWith('.md') ? [path] : [];
  });
}

function leads(page: string, link: string): boolean {
  if (/^[a-z]+:/.test(link)) return true;
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? join(ROOT, page) : resolve(ROOT, dirname(page), path);
  if (!existsSync(target)) return false;
  if (anchor === undefined) return true;
  return statSync(target).isFile() && anchors(readFileSync(target, 'utf8')).includes(anchor);
}

/** The anchors of headings, as GitHub makes them. */
function anchors(text: string): string[] {
  return Array.from(withoutCode(text).matchAll(/^#{1,6} (.*)$/gm), ([, heading]) =>
    (heading as string)
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function withoutCode(text: string): string {
  return text.replace(/^```.*?^```/gms, '').replace(/`[^`\n]*`/g, (code) => code.replace(/[[\]()]/g, ''));
}
