/** The ways to run a statement, on any connection. */
import type pg from 'pg';
import { copyIn } from './copy-in.js';
import type { Statement } from './statement.js';
import { queryTexts, type TextRow, type TextValue } from './text-query.js';

export type Runner = {
  /** Runs one statement and returns its rows. It is a transaction of its own, except on the `tx` of a transaction. */
  run<Row extends object>(statement: Statement, values?: unknown[]): Promise<Row[]>;
  /** The same with strings as values and unparsed rows, for the hot path. */
  runTexts(statement: Statement, values: readonly TextValue[]): Promise<TextRow[]>;
  /** Runs a text that begins with a COPY from this data, as one transaction. See copy-in. */
  copyIn(text: string, data: Buffer): Promise<void>;
};

/** Sends a statement and calls `done`, with the error or the answer. */
export type Send<Answer> = (client: pg.ClientBase, done: (error: Error | undefined, answer?: Answer) => void) => void;

export function createRunner(execute: <Answer>(send: Send<Answer>) => Promise<Answer>): Runner {
  return {
    run<Row extends object>({ name, text }: Statement, values: unknown[] = []) {
      return execute<Row[]>((client, done) => {
        client.query({ name, text, values }).then(({ rows }) => done(undefined, rows as Row[]), done);
      });
    },
    runTexts: (statement, values) => execute((client, done) => queryTexts(client, statement, values, done)),
    copyIn: (text, data) => execute((client, done) => copyIn(client, text, data, done)),
  };
}
