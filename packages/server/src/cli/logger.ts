/** Logs go to stderr, as JSON lines or as short lines for a terminal. */
import { type Logger, pino } from 'pino';
import type { Settings } from '../config/settings.js';
import type { Output } from './context.js';
import { printable } from './output.js';

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

export function createLogger(settings: Pick<Settings, 'logLevel' | 'logFormat'>, output: Output): Logger {
  const isPretty = settings.logFormat === 'pretty' || (settings.logFormat === 'auto' && output.isTTY === true);
  const write = isPretty
    ? (line: string) => void output.write(`${prettyLine(line)}\n`)
    : (line: string) => void output.write(line);
  return pino({ level: settings.logLevel }, { write });
}

/** `12:00:05 WARN message field=value`, followed by the stack of an error. */
export function prettyLine(line: string): string {
  let entry: Record<string, unknown>;
  try {
    entry = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return line.trimEnd();
  }
  const time = new Date(Number(entry.time)).toISOString().slice(11, 19);
  const fields = Object.entries(entry)
    .filter(([name]) => !HIDDEN_FIELDS.has(name) && name !== 'err')
    .map(([name, value]) => `${name}=${shorten(typeof value === 'string' ? value : JSON.stringify(value))}`);
  const text = [time, LEVEL_NAMES[Number(entry.level)] ?? '', String(entry.msg ?? ''), ...fields].join(' ');
  const stack = (entry.err as { stack?: string } | undefined)?.stack;
  return stack ? `${printable(text)}\n${stack}` : printable(text);
}

function shorten(text: string): string {
  return text.length > MAX_FIELD_LENGTH ? `${text.slice(0, MAX_FIELD_LENGTH)}…` : text;
}
