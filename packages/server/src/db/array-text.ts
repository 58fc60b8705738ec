/**
 * Array literals for PostgreSQL. On the hot path rows travel as one array a column: reading a thousand rows
 * of JSON costs PostgreSQL 6 ms, the same as arrays 0.5 ms.
 */

/** Of values that need no quotes: numbers, UUIDs. */
export function plainArray(values: readonly (string | number | undefined)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join(',')}}`;
}

/** Of names, which hold nothing that needs an escape. Mostly it is one name again and again. */
export function nameArray(names: readonly (string | undefined)[]): string {
  const [first] = names;
  if (names.length > 1 && names.every((name) => name === first)) {
    return `{${`${quotedName(first)},`.repeat(names.length - 1)}${quotedName(first)}}`;
  }
  return `{${names.map(quotedName).join(',')}}`;
}

function quotedName(name: string | undefined): string {
  return name === undefined ? 'NULL' : `"${name}"`;
}

/** Of any texts. */
export function textArray(texts: readonly (string | undefined)[]): string {
  return `{${texts.map((text) => (text === undefined ? 'NULL' : quoted(text))).join(',')}}`;
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** The elements of an array that PostgreSQL wrote, if they need no quotes and none is null: ids, numbers. */
export function readPlainArray(text: string): string[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',');
}
