/**
 * A prepared statement with texts for values, whose rows come as texts. pg's own query asks for a description of the rows each
 * time, turns them into objects by it, sends its messages one by one, and does more that the hot path has no use for.
 */
import type pg from 'pg';
import type { Statement } from './statement.js';

export type TextRow = (string | null)[];
export type TextValue = string | null | undefined;

type Done = (error: Error | undefined, rows: TextRow[]) => void;

/** What `pg` gives a query to speak with, as far as it is used here; its types leave these out. */
type Wire = {
  stream: { write(bytes: Buffer): void };
  /** The statements of this connection by name: those that PostgreSQL has taken, and those under way. */
  parsedStatements: Record<string, string | undefined>;
  submittedNamedStatements: Record<string, string | undefined>;
  parse(statement: Statement): void;
};

/** Everything that pg calls, which knows its queries by these names. */
class TextQuery implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  /** pg puts its own in front of it where it has to. */
  callback: Done;
  readonly #values: readonly TextValue[];
  readonly #rows: TextRow[] = [];

  constructor(statement: Statement, values: readonly TextValue[], done: Done) {
    this.name = statement.name;
    this.text = statement.text;
    this.#values = values;
    this.callback = done;
  }

  /** pg hands an error that is given back to handleError; one that is thrown may end the process. */
  submit(connection: pg.Connection): Error | undefined {
    const { name, text } = this;
    const wire = connection as unknown as Wire;
    try {
      const known = wire.parsedStatements[name] ?? wire.submittedNamedStatements[name];
      if (known !== undefined && known !== text) return new Error(`there are two statements with the name ${name}`);
      const messages = executeMessages(name, this.#values);
      if (known === undefined) {
        wire.parse({ name, text });
        wire.submittedNamedStatements[name] = text;
      }
      wire.stream.write(messages);
      return undefined;
    } catch (error) {
      return error as Error;
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

const BIND = 'B'.charCodeAt(0);
/** Execute the portal without a name to its end, and sync. */
const EXECUTE_AND_SYNC = Buffer.from('E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04', 'latin1');
const NULL_LENGTH = -1;

/** The statement with these values, bound to the portal without a name and executed: PostgreSQL's messages as one piece. */
function executeMessages(name: string, values: readonly TextValue[]): Buffer {
  const lengths = values.map((value) => (value == null ? NULL_LENGTH : Buffer.byteLength(value)));
  // a length, two names, no formats for all of the values, their number, no formats for the rows
  let bindLength = 4 + 1 + (Buffer.byteLength(name) + 1) + 2 + 2 + 2;
  for (const length of lengths) bindLength += 4 + Math.max(0, length);
  const bytes = Buffer.allocUnsafe(1 + bindLength + EXECUTE_AND_SYNC.length);
  let at = bytes.writeUInt8(BIND, 0);
  at = bytes.writeInt32BE(bindLength, at);
  at = bytes.writeUInt8(0, at);
  at += bytes.write(name, at);
  at = bytes.writeUInt8(0, at);
  at = bytes.writeUInt16BE(0, at);
  at = bytes.writeUInt16BE(values.length, at);
  for (let index = 0; index < values.length; index++) {
    at = bytes.writeInt32BE(lengths[index] as number, at);
    const value = values[index];
    if (value != null) at += bytes.write(value, at);
  }
  at = bytes.writeUInt16BE(0, at);
  EXECUTE_AND_SYNC.copy(bytes, at);
  return bytes;
}

export function queryTexts(
  client: pg.ClientBase,
  statement: Statement,
  values: readonly TextValue[],
  done: Done,
): void {
  client.query(new TextQuery(statement, values, done));
}
