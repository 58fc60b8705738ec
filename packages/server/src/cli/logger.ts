/** Logs go to stderr, as JSON lines or as short lines for a terminal. */
import { type Logger, pino } from 'pino';
import type { Settings } from '../config/settings.js';
import type { GlobalOptions, Output } from './context.js';
import { safeJson, safeLine, safeLines } from './terminal-text.js';
import { formatTime } from './text-format.js';

const LEVEL_NAMES: Record<number, string> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'WARN',
  50: 'ERROR',
  60: 'FATAL',
};
/** Fields that are not shown on a terminal. */
const HIDDEN_FIELDS = new Set(['level', 'time', 'msg', 'pid', 'hostname']);
const MAX_FIELD_LENGTH = 300;
/** The latest time of a Date. */
const LATEST_MS = 8.64e15;

export function createLogger(
  settings: Pick<Settings, 'logLevel' | 'logFormat'>,
  output: Output,
  { utc = false }: GlobalOptions,
): Logger {
  const isPretty = settings.logFormat === 'pretty' || (settings.logFormat === 'auto' && output.isTTY === true);
  const write = isPretty
    ? (line: string) => void output.write(`${prettyLine(line, utc)}\n`)
    : (line: string) => void output.write(safeJson(line));
  return pino({ level: settings.logLevel }, { write });
}

/** `2030-01-31T12:00:05Z WARN message field=value`, followed by the stack of an error. */
export function prettyLine(line: string, utc: boolean): string {
  const entry = entryOf(line);
  if (entry === undefined) return safeLine(line.trimEnd());
  const time = formatTime(new Date(entry.time).toISOString(), utc);
  const fields = Object.entries(entry)
    .filter(([name]) => !HIDDEN_FIELDS.has(name) && name !== 'err')
    .map(([name, value]) => `${name}=${shorten(typeof value === 'string' ? value : JSON.stringify(value))}`);
  const text = [time, LEVEL_NAMES[Number(entry.level)] ?? '', String(entry.msg ?? ''), ...fields].join(' ');
  const stack = (entry.err as { stack?: unknown } | null | undefined)?.stack;
  return typeof stack === 'string' ? `${safeLine(text)}\n${safeLines(stack)}` : safeLine(text);
}

/** Undefined if the line is not one of a logger, but for example what a handler has printed. */
function entryOf(line: string): (Record<string, unknown> & { time: number }) | undefined {
  try {
    const entry = JSON.parse(line) as { time?: unknown } | null;
    const time = entry?.time;
    return typeof time === 'number' && Math.abs(time) <= LATEST_MS ? { ...entry, time } : undefined;
  } catch {
    return undefined;
  }
}

function shorten(text: string): string {
  return text.length > MAX_FIELD_LENGTH ? `${text.slice(0, MAX_FIELD_LENGTH)}…` : text;
}
