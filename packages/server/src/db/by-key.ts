/**
 * "The row that has this key", for joining a batch with a table: written so that PostgreSQL looks up one key after the other.
 * An equality it may also read the other way round: go through the whole table and compare each row with each item of the
 * batch. It does when its statistics say that the table is empty, as they do after every drained burst (2,000 outcomes then
 * took a second and more, instead of some 20 ms).
 *
 * That takes away its usual reason to walk through an index. Others are an order by the key, and a condition that is that of a
 * partial index: the statement must not give them either.
 */
export function byKey(column: string, key: string): string {
  return `${column} between ${key} and ${key}`;
}
