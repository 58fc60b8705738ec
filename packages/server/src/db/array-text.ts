/**
 * Array literals for PostgreSQL. On the hot path rows travel as one array a column: reading a thousand rows
 * of JSON costs PostgreSQL 6 ms, the same as arrays 0.5 ms.
 */

/** Of values that need no quotes: numbers, UUIDs. */
export function plainArray(values: readonly (string | number | undefined)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join(',')}}`;
}

/** Of names, which hold nothing that needs an escape. */
export function nameArray(names: readonly (string | undefined)[]): string {
  return `{${names.map((name) => (name === undefined ? 'NULL' : `"${name}"`)).join(',')}}`;
}

/** Of any texts. */
export function textArray(texts: readonly (string | undefined)[]): string {
  return `{${texts.map((text) => (text === undefined ? 'NULL' : quoted(text))).join(',')}}`;
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}
