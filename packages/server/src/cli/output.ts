/** Output as tables, or as JSON for programs. */
import type { Output } from './context.js';
import { safeJson, safeLine, safeLines } from './terminal-text.js';

const COLUMN_GAP = '  ';
const MAX_CELL_LENGTH = 60;

export type Cell = string | number | null | undefined;

/** Columns are as wide as needed; numbers are right-aligned. */
export function formatTable(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) => row.map(cellText));
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...texts.map((row) => row[column]?.length ?? 0)),
  );
  const isNumeric = headings.map((_, column) => rows.some((row) => typeof row[column] === 'number'));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        isNumeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join(COLUMN_GAP)
      .trimEnd();
  return [line(headings.map((heading) => heading.toUpperCase())), ...texts.map(line)].join('\n');
}

/** One line per field with a value. */
export function formatFields(fields: readonly (readonly [string, Cell])[]): string {
  const shown = fields.filter(([, value]) => value !== undefined && value !== null && value !== '');
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}${COLUMN_GAP}${safeLine(String(value))}`).join('\n');
}

function cellText(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-';
  const text = safeLine(String(cell));
  if (text.length <= MAX_CELL_LENGTH) return text;
  // not between the halves of a surrogate pair
  return `${text.slice(0, MAX_CELL_LENGTH - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** Milliseconds in a readable unit. */
export function formatSpan(ms: number | null): string | null {
  if (ms === null) return null;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return hours > 0 ? `${hours} h ${minutes} m` : `${minutes} m ${Math.floor(seconds % 60)} s`;
}

export function printLine(output: Output, text: string): void {
  output.write(`${safeLines(text)}\n`);
}

export function printJson(output: Output, value: unknown): void {
  output.write(`${safeJson(JSON.stringify(value, null, 2))}\n`);
}

/** A value as JSON on one line. Null if there is none. */
export function jsonText(value: unknown): string | null {
  return value === null || value === undefined ? null : safeJson(JSON.stringify(value));
}
