/** The lowest and the highest id that begin with a prefix, for a lookup in an index. */
const SHAPE = '00000000-0000-0000-0000-000000000000';

/** Both are included. An empty prefix gives all ids. */
export function idRange(prefix: string): [lowest: string, highest: string] {
  const rest = SHAPE.slice(prefix.length);
  return [prefix + rest, prefix + rest.replaceAll('0', 'f')];
}
