/**
 * A named statement with strings for values, whose rows come as PostgreSQL writes them. `pg` would build each row field by
 * field with a parser for its type; decision 0018 has what that costs. The methods are those that `pg` calls on every query,
 * its extension point, as pg-cursor and pg-copy-streams use it.
 */
import pg from 'pg';
import type { Statement } from './statement.js';

export type TextRow = (string | null)[];
export type TextValue = string | null | undefined;

type Done = (error: Error | undefined, rows: TextRow[]) => void;

class TextQuery extends pg.Query {
  readonly rowsOfTexts: TextRow[] = [];

  /** The types of the columns, which nothing here needs. */
  handleRowDescription(): void {}

  handleDataRow({ fields }: { fields: TextRow }): void {
    this.rowsOfTexts.push(fields);
  }
}

export function queryTexts(
  client: pg.ClientBase,
  { name, text }: Statement,
  values: readonly TextValue[],
  done: Done,
): void {
  const query: TextQuery = new TextQuery({ name, text, values: values as TextValue[] }, (error) =>
    done(error ?? undefined, query.rowsOfTexts),
  );
  client.query(query);
}
