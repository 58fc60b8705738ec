/**
 * Reads a cron pattern. Five fields, or six with seconds first:
 *
 *   second 0–59 · minute 0–59 · hour 0–23 · day of month · month 1–12 or JAN–DEC · day of week 0–7 or SUN–SAT
 *
 * `*`, lists `1,2`, ranges `1-5`, steps `*\/5`, `10-30/5`, `5/15` (from 5 to the end). Day of month also takes `L`
 * (the last), `L-3` (three before it), `15W` (the weekday nearest to the 15th in its month), `LW`. Day of week also
 * takes `5L` (the last Friday), `5#2` (the second). `?` is `*` in either. If both day fields are restricted, a day
 * that matches one of them matches, as in every cron since 1979.
 *
 * Rejected: croner. It is more than a hundred times slower (docs/decisions/0009), treats `?` as a restriction, and
 * does not support `L-3`.
 */

/** An invalid pattern. The message says which field is wrong and why. */
export class CronError extends Error {
  override readonly name = 'CronError';
}

export type Cron = {
  /** Sorted, never empty. */
  seconds: readonly number[];
  minutes: readonly number[];
  hours: readonly number[];
  /** Index 1 to 12. */
  months: readonly boolean[];
  daysOfMonth: DaysOfMonth;
  daysOfWeek: DaysOfWeek;
};

export type DaysOfMonth = {
  any: boolean;
  /** Index 1 to 31. */
  days: readonly boolean[];
  /** How many days before the last: 0 for `L`. */
  beforeLast: readonly number[];
  nearestWeekday: readonly number[];
  lastWeekday: boolean;
};

export type DaysOfWeek = {
  any: boolean;
  /** Index 0 (Sunday) to 6. */
  days: readonly boolean[];
  last: readonly number[];
  nth: readonly { day: number; n: number }[];
};

const MACROS: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

const MONTH_NAMES = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const DAY_NAMES = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

type Field = { name: string; min: number; max: number; names?: { words: readonly string[]; first: number } };

const SECOND: Field = { name: 'second', min: 0, max: 59 };
const MINUTE: Field = { name: 'minute', min: 0, max: 59 };
const HOUR: Field = { name: 'hour', min: 0, max: 23 };
const DAY_OF_MONTH: Field = { name: 'day of month', min: 1, max: 31 };
const MONTH: Field = { name: 'month', min: 1, max: 12, names: { words: MONTH_NAMES, first: 1 } };
/** Sunday is 0 and 7. */
const DAY_OF_WEEK: Field = { name: 'day of week', min: 0, max: 7, names: { words: DAY_NAMES, first: 0 } };

/**
 * Thousands of schedules share a few patterns. This module-wide memo is safe because the parser is pure and its results are never
 * changed.
 */
const MAX_KEPT = 2000;
const kept = new Map<string, Cron>();

export function parseCron(pattern: string): Cron {
  const known = kept.get(pattern);
  if (known) return known;
  if (kept.size >= MAX_KEPT) kept.clear();
  const cron = readPattern(pattern);
  kept.set(pattern, cron);
  return cron;
}

function readPattern(pattern: string): Cron {
  const text = pattern.trim().toUpperCase();
  const fields = (text.startsWith('@') ? macro(text) : text).split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6) {
    throw new CronError(`expected 5 fields, or 6 with seconds first, got ${fields.length}`);
  }
  const [second, minute, hour, dayOfMonth, month, dayOfWeek] = (fields.length === 6 ? fields : ['0', ...fields]) as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  return {
    seconds: numbers(SECOND, second),
    minutes: numbers(MINUTE, minute),
    hours: numbers(HOUR, hour),
    months: flags(numbers(MONTH, month), 13),
    daysOfMonth: parseDaysOfMonth(dayOfMonth),
    daysOfWeek: parseDaysOfWeek(dayOfWeek),
  };
}

/** Whether it matches in every hour: then an hour that exists twice counts twice. */
export function isOfEveryHour(cron: Cron): boolean {
  return cron.hours.length === 24;
}

function macro(text: string): string {
  const fields = MACROS[text.toLowerCase()];
  if (fields) return fields;
  throw new CronError(`expected one of ${Object.keys(MACROS).join(', ')}, got ${text.toLowerCase()}`);
}

function parseDaysOfMonth(text: string): DaysOfMonth {
  const plain: string[] = [];
  const beforeLast: number[] = [];
  const nearestWeekday: number[] = [];
  let lastWeekday = false;
  for (const part of partsOf(DAY_OF_MONTH, text)) {
    if (part === 'LW' || part === 'WL') lastWeekday = true;
    else if (part === 'L') beforeLast.push(0);
    else if (part.startsWith('L-')) beforeLast.push(numberIn(DAY_OF_MONTH, part.slice(2), 1, 30));
    else if (part.endsWith('W')) nearestWeekday.push(numberIn(DAY_OF_MONTH, part.slice(0, -1), 1, 31));
    else plain.push(part);
  }
  const days = flags(
    plain.flatMap((part) => rangeOf(DAY_OF_MONTH, part)),
    32,
  );
  return { any: startsWithAny(text), days, beforeLast, nearestWeekday, lastWeekday };
}

function parseDaysOfWeek(text: string): DaysOfWeek {
  const plain: string[] = [];
  const last: number[] = [];
  const nth: { day: number; n: number }[] = [];
  for (const part of partsOf(DAY_OF_WEEK, text)) {
    const [day, n] = part.split('#', 2);
    if (n !== undefined) nth.push({ day: valueIn(DAY_OF_WEEK, day as string) % 7, n: numberIn(DAY_OF_WEEK, n, 1, 5) });
    else if (part.endsWith('L') && part.length > 1) last.push(valueIn(DAY_OF_WEEK, part.slice(0, -1)) % 7);
    else plain.push(part);
  }
  const days = flags(
    plain.flatMap((part) => rangeOf(DAY_OF_WEEK, part)).map((day) => day % 7),
    7,
  );
  return { any: startsWithAny(text), days, last, nth };
}

/** Also a stepped `*`, as in every cron: such a field does not make the other one an alternative. */
function startsWithAny(text: string): boolean {
  return text.startsWith('*') || text === '?';
}

function numbers(field: Field, text: string): number[] {
  if (text === '?') throw new CronError(`${field.name}: expected ? only in a field of days`);
  const values = partsOf(field, text).flatMap((part) => rangeOf(field, part));
  return [...new Set(values)].sort((a, b) => a - b);
}

function partsOf(field: Field, text: string): string[] {
  const parts = text.split(',');
  if (parts.includes('')) throw new CronError(`${field.name}: expected a value between the commas, got ${text}`);
  return parts;
}

/** The values of `*`, `?`, `5`, `1-5`, and each with `/step`. */
function rangeOf(field: Field, part: string): number[] {
  const [range = '', stepText, surplus] = part.split('/', 3);
  if (surplus !== undefined) throw new CronError(`${field.name}: expected one /, got ${part}`);
  const step = stepText === undefined ? 1 : numberIn(field, stepText, 1, field.max);
  const [from, to] = endsOf(field, range, stepText !== undefined);
  if (from > to) throw new CronError(`${field.name}: expected a range that goes up, got ${part}`);
  const values: number[] = [];
  for (let value = from; value <= to; value += step) values.push(value);
  return values;
}

function endsOf(field: Field, range: string, isStepped: boolean): [number, number] {
  // 7 is Sunday too
  const top = field === DAY_OF_WEEK ? 6 : field.max;
  if (range === '*' || range === '?') return [field.min, top];
  const [low = '', high, surplus] = range.split('-', 3);
  if (surplus !== undefined) throw new CronError(`${field.name}: expected one -, got ${range}`);
  const from = valueIn(field, low);
  if (high === undefined) return [from, isStepped ? Math.max(from, top) : from];
  return [from, valueIn(field, high)];
}

function valueIn(field: Field, text: string): number {
  const index = field.names?.words.indexOf(text) ?? -1;
  if (field.names && index >= 0) return index + field.names.first;
  return numberIn(field, text, field.min, field.max, field.names?.words);
}

function numberIn(field: Field, text: string, min: number, max: number, names?: readonly string[]): number {
  const value = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  const expected = `a number from ${min} to ${max}${names ? ` or a name such as ${names[1]}` : ''}`;
  throw new CronError(`${field.name}: expected ${expected}, got ${text || 'nothing'}`);
}

function flags(values: readonly number[], length: number): boolean[] {
  const set = new Array<boolean>(length).fill(false);
  for (const value of values) set[value] = true;
  return set;
}
