/** Output as tables, or as JSON for programs. */
import type { Output } from './context.js';

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
  return shown.map(([name, value]) => `${name.padEnd(width)}${COLUMN_GAP}${value}`).join('\n');
}

function cellText(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-';
  const text = printable(String(cell));
  return text.length > MAX_CELL_LENGTH ? `${text.slice(0, MAX_CELL_LENGTH - 1)}…` : text;
}

/** Removes control characters, so that text from a job cannot control the terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, ' ');
}

/** `2030-01-31 12:00:00` in UTC, like every time in Drover. */
export function formatTime(time: string | null): string | null {
  return time === null ? null : `${time.slice(0, 10)} ${time.slice(11, 19)}`;
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
  output.write(`${text}\n`);
}

export function printJson(output: Output, value: unknown): void {
  printLine(output, JSON.stringify(value, null, 2));
}
