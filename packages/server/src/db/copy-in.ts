/**
 * Rows for a table by COPY. The text may hold further statements after the COPY. All of them are one transaction, as always
 * with PostgreSQL's simple protocol, and a failure leaves nothing of it behind.
 */
import pg from 'pg';

/** The methods of `pg`'s connection for COPY; its types do not list them. */
type CopyConnection = {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
};

/** The extension point of `pg` for COPY, as pg-copy-streams uses it. That package does not accept statements after the COPY. */
class CopyIn extends pg.Query {
  readonly #data: Buffer;

  constructor(text: string, data: Buffer, done: (error: Error | undefined) => void) {
    super(text, done);
    this.#data = data;
  }

  /** Called when PostgreSQL waits for the data. */
  handleCopyInResponse(connection: CopyConnection): void {
    connection.sendCopyFromChunk(this.#data);
    connection.endCopyFrom();
  }
}

export function copyIn(
  client: pg.ClientBase,
  text: string,
  data: Buffer,
  done: (error: Error | undefined) => void,
): void {
  // pg calls back with null where there is no error
  client.query(new CopyIn(text, data, (error) => done(error ?? undefined)));
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\r': '\\r', '\n': '\\n' };

/** Escapes a string for COPY's text format. */
export function copyText(text: string): string {
  return /[\\\t\r\n]/.test(text) ? text.replace(/[\\\t\r\n]/g, (character) => ESCAPES[character] as string) : text;
}
