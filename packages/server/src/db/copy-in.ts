/**
 * Rows for a table by COPY, with the data in the same packets as the command: PostgreSQL reads it when it comes to the
 * COPY, and passes over it when it does not, so there is no need to wait for its invitation.
 *
 * The text may hold further statements after the COPY. All of them are one transaction, as always with PostgreSQL's simple
 * protocol, and a failure leaves none of it behind.
 */
import pg from 'pg';

/** What `pg` gives a query to speak with, as far as it is used here; its types leave these out. */
type Wire = {
  stream: { cork(): void; uncork(): void };
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
};

/** A query of pg's own kind, which is how pg lets others speak its protocol. */
class CopyIn extends pg.Query {
  readonly #data: Buffer;

  constructor(text: string, data: Buffer, done: (error: Error | undefined) => void) {
    super(text, done);
    this.#data = data;
    // its types call it a property, so it cannot be overridden as the method that it is
    const submit = this.submit;
    this.submit = (connection) => {
      const wire = connection as unknown as Wire;
      wire.stream.cork();
      try {
        submit.call(this, connection);
        wire.sendCopyFromChunk(this.#data);
        wire.endCopyFrom();
      } finally {
        wire.stream.uncork();
      }
    };
  }

  /** The invitation: the data is under way already. */
  handleCopyInResponse(): void {}
}

export function copyIn(
  client: pg.ClientBase,
  text: string,
  data: Buffer,
  done: (error: Error | undefined) => void,
): void {
  // pg says null where there is no error
  client.query(new CopyIn(text, data, (error) => done(error ?? undefined)));
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\r': '\\r', '\n': '\\n' };

/** Any text in a row of COPY's text format. */
export function copyText(text: string): string {
  return /[\\\t\r\n]/.test(text) ? text.replace(/[\\\t\r\n]/g, (character) => ESCAPES[character] as string) : text;
}
