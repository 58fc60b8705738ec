/**
 * A prepared statement with texts for values, whose rows come as texts. pg's own query asks for a description of the rows each
 * time, turns them into objects by it, and does more that the hot path has no use for: a twentieth of the time of adding one job.
 */
import type pg from 'pg';
import type { Statement } from './statement.js';

export type TextRow = (string | null)[];
export type TextValue = string | null | undefined;

type Done = (error: Error | undefined, rows: TextRow[]) => void;

/** What `pg` gives a query to speak with, as far as it is used here; its types leave these out. */
type Wire = {
  stream: { cork(): void; uncork(): void };
  /** The statements of this connection by name: those that PostgreSQL has taken, and those under way. */
  parsedStatements: Record<string, string | undefined>;
  submittedNamedStatements: Record<string, string | undefined>;
  parse(statement: Statement): void;
  bind(binding: { statement: string; values: readonly TextValue[] }): void;
  execute(portal: object): void;
  sync(): void;
};

/** Everything that pg calls, which knows its queries by these names. */
class TextQuery implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  /** pg puts its own in front of it where it has to. */
  callback: Done;
  readonly #values: readonly TextValue[];
  readonly #rows: TextRow[] = [];

  constructor(
    statement: Statement,
    values: readonly TextValue[],
    done: (error: Error | undefined, rows: TextRow[]) => void,
  ) {
    this.name = statement.name;
    this.text = statement.text;
    this.#values = values;
    this.callback = done;
  }

  /** pg hands an error that is given back to handleError; one that is thrown may end the process. */
  submit(connection: pg.Connection): Error | undefined {
    const { name, text } = this;
    const wire = connection as unknown as Wire;
    wire.stream.cork();
    try {
      const known = wire.parsedStatements[name] ?? wire.submittedNamedStatements[name];
      if (known === undefined) {
        wire.parse({ name, text });
        wire.submittedNamedStatements[name] = text;
      } else if (known !== text) {
        return new Error(`there are two statements with the name ${name}`);
      }
      wire.bind({ statement: name, values: this.#values });
      wire.execute({});
      wire.sync();
      return undefined;
    } catch (error) {
      return error as Error;
    } finally {
      wire.stream.uncork();
    }
  }

  handleDataRow({ fields }: { fields: TextRow }): void {
    this.#rows.push(fields);
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.callback(undefined, this.#rows);
  }

  /** After it nothing else is called. */
  handleError(error: Error): void {
    this.callback(error, this.#rows);
  }
}

export function queryTexts(
  client: pg.ClientBase,
  statement: Statement,
  values: readonly TextValue[],
): Promise<TextRow[]> {
  return new Promise((resolve, reject) => {
    client.query(new TextQuery(statement, values, (error, rows) => (error ? reject(error) : resolve(rows))));
  });
}
