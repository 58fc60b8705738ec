/**
 * "The row that has this key", for joining a batch with a table, written so that PostgreSQL looks up one key after
 * the other. For an equality it may instead scan the whole table and compare each row with each item of the batch. It
 * does so when its statistics say that the table is empty, as they do after every drained burst (2,000 outcomes then
 * took over a second).
 *
 * The statement must not give PostgreSQL another reason to scan an index: an order by the key, or the condition of a
 * partial index.
 */
export function byKey(column: string, key: string): string {
  return `${column} between ${key} and ${key}`;
}
