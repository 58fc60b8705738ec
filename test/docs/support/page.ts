/** A page of the docs, taken apart: sections by heading, tables by row, blocks of code. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

export type CodeBlock = { language: string; attributes: Record<string, string>; code: string; line: number };

export function readPage(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** The text below a heading, up to the next heading of the same or a higher level. */
export function section(page: string, heading: string): string {
  const lines = page.split('\n');
  const start = lines.indexOf(heading);
  if (start < 0) throw new Error(`there is no heading "${heading}"`);
  const level = heading.indexOf(' ');
  const isEnd = (line: string) => /^#{1,6} /.test(line) && line.indexOf(' ') <= level;
  const rest = withoutCode(lines.slice(start + 1));
  const end = rest.findIndex(isEnd);
  return lines.slice(start + 1, end < 0 ? undefined : start + 1 + end).join('\n');
}

/** Headings of exactly this level. */
export function headings(page: string, level: number): string[] {
  const mark = `${'#'.repeat(level)} `;
  return withoutCode(page.split('\n'))
    .filter((line) => line.startsWith(mark))
    .map((line) => line.slice(mark.length));
}

/** The rows of every table in the text, without their headings; cells as they stand. */
export function tableRows(text: string): string[][] {
  const rows: string[][] = [];
  const lines = withoutCode(text.split('\n'));
  lines.forEach((line, index) => {
    const isRow = line.startsWith('|') && !isRule(line) && !isRule(lines[index + 1] ?? '');
    if (isRow) rows.push(cells(line));
  });
  return rows;
}

/** The words in `code` of a text, in order. */
export function codeWords(text: string): string[] {
  return Array.from(text.matchAll(/`([^`\n]+)`/g), ([, word]) => word as string);
}

/** What the first cell of each row names in `code`. */
export function named(text: string): string[] {
  return tableRows(text).flatMap(([first]) => codeWords(first ?? ''));
}

/** The info string is a language and then `key=value`, which readers do not see and tests act on. */
export function codeBlocks(page: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open: { info: string; lines: string[]; line: number } | undefined;
  page.split('\n').forEach((line, index) => {
    if (!line.startsWith('```')) open?.lines.push(line);
    else if (open === undefined) open = { info: line.slice(3), lines: [], line: index + 1 };
    else {
      const [language = '', ...pairs] = open.info.split(' ');
      const attributes = Object.fromEntries(pairs.map((pair) => pair.split('=', 2) as [string, string]));
      blocks.push({ language, attributes, code: `${open.lines.join('\n')}\n`, line: open.line });
      open = undefined;
    }
  });
  return blocks;
}

/** The lines with those inside blocks of code made empty, so that places stay the same. */
function withoutCode(lines: readonly string[]): string[] {
  let inside = false;
  return lines.map((line) => {
    const isFence = line.startsWith('```');
    if (isFence) inside = !inside;
    return inside || isFence ? '' : line;
  });
}

function isRule(line: string): boolean {
  return /^\|[\s|:-]+\|$/.test(line);
}

function cells(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());
}
