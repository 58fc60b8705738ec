/**
 * A JSON text that has come from a client and is passed on as it came (decision 0017). It has no line break, tab or NUL.
 *
 * What always holds: nobody is told that it was taken before it is known to be JSON. In a column or on a line of its own
 * PostgreSQL sees to that; whoever puts it into a larger JSON text checks it before.
 */
export class UnreadJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  isJson(): boolean {
    try {
      JSON.parse(this.text);
      return true;
    } catch {
      return false;
    }
  }

  /** The value; also what JSON.stringify takes for it. Throws UnreadableJson. */
  toJSON(): unknown {
    try {
      return JSON.parse(this.text);
    } catch (error) {
      throw new UnreadableJson({ cause: error });
    }
  }
}

/** A text that was passed on unread is no JSON, and nothing of what came with it has been done. */
export class UnreadableJson extends Error {
  override readonly name = 'UnreadableJson';

  constructor(options: ErrorOptions) {
    super('a text that was taken for JSON is none', options);
  }
}
