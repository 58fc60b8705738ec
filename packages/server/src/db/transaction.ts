/**
 * Several statements as one transaction: `db.transaction(async (tx) => …)`. It takes at least two round trips more than its
 * statements, so the hot path does not use it.
 *
 * - The callback sends its statements on `tx`, and only there: every other runner is another connection, which does not see
 *   the transaction and can wait for its locks. `tx` cannot open a transaction, so transactions do not nest.
 * - The callback may be run several times: after a serialization failure or a deadlock it is run again from its beginning.
 *   It must have no effect outside of the database.
 * - The callback's error rolls the transaction back and is thrown. So does a failed statement whose error the callback hides,
 *   because PostgreSQL carries out nothing after it.
 * - Until COMMIT is sent nothing is committed, so every lost connection and the deadline are `unavailable`. A COMMIT without an
 *   answer is `unknown`: the transaction may be committed.
 * - The deadline is for all of it. Past it the connection is destroyed and the caller gets the error, even if the callback
 *   never settles. Waiting for a free connection comes before it and has its own limit.
 *
 * BEGIN and COMMIT go through one connection and the session keeps no state, as a pooler in transaction mode requires. BEGIN
 * names the isolation, because the settings of a session do not arrive there.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { spanText } from '../base/span-text.js';
import { DatabaseError, isSerializationFailure } from './database-error.js';
import { createRunner, type Runner, type Send } from './runner.js';

export type TransactionOptions = {
  /** By default as long as a single statement. */
  deadlineMs?: number;
};

type Work<Result> = (tx: Runner) => Promise<Result>;

export type Transaction = <Result>(work: Work<Result>, options?: TransactionOptions) => Promise<Result>;

export type TransactionRunner = Runner & { readonly transaction: Transaction };

/** The one connection of a transaction. */
export type Link = {
  /** Rejects with a DatabaseError. */
  send<Answer>(send: Send<Answer>): Promise<Answer>;
  destroy(failure: DatabaseError): void;
  onFailure(failure: DatabaseError): void;
};

const MAX_ATTEMPTS = 5;
/**
 * Before the second attempt; it doubles with each one. Without it the transaction that PostgreSQL rolled back can take its
 * locks again before the other one has woken up, and both are in the same deadlock again.
 */
const RETRY_PAUSE_MS = 25;

export async function runTransaction<Result>(link: Link, work: Work<Result>, deadlineMs: number): Promise<Result> {
  const progress: Progress = { isCommitting: false, isOver: false };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const failure = new DatabaseError(
        progress.isCommitting ? 'unknown' : 'unavailable',
        `the transaction did not end within ${spanText(deadlineMs)}`,
      );
      reject(failure);
      link.destroy(failure);
      link.onFailure(failure);
    }, deadlineMs);
  });
  try {
    return await Promise.race([late, attemptRepeatedly(link, work, progress)]);
  } finally {
    clearTimeout(timer);
    progress.isOver = true;
  }
}

type Progress = {
  /** COMMIT is sent: from now on the transaction may be committed. */
  isCommitting: boolean;
  /** The connection belongs to others; a callback that is still running must not use it. */
  isOver: boolean;
};

async function attemptRepeatedly<Result>(link: Link, work: Work<Result>, progress: Progress): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await attemptOnce(link, work, progress);
    } catch (error) {
      if (progress.isOver || attempt === MAX_ATTEMPTS || !isSerializationFailure(error)) throw error;
      progress.isCommitting = false;
      await sleep(RETRY_PAUSE_MS * 2 ** (attempt - 1));
    }
  }
}

async function attemptOnce<Result>(link: Link, work: Work<Result>, progress: Progress): Promise<Result> {
  await send(link, progress, command('begin isolation level read committed'));
  const statements = createStatements((statement) => send(link, progress, statement));
  let result: Result;
  try {
    result = await work(createRunner(statements.execute));
  } catch (error) {
    await rollBack(link, statements, progress);
    throw isSerializationFailure(statements.failure()) ? statements.failure() : error;
  }
  await statements.close();
  const failure = statements.failure();
  if (failure !== undefined) {
    await rollBack(link, statements, progress);
    throw failure;
  }
  progress.isCommitting = true;
  await send(link, progress, command('commit'));
  return result;
}

async function rollBack(link: Link, statements: Statements, progress: Progress): Promise<void> {
  await statements.close();
  // It fails only if the connection is gone, and then PostgreSQL rolls back by itself. The first error is the one to throw.
  if (!progress.isOver) await link.send(command('rollback')).catch(() => {});
}

async function send<Answer>(link: Link, progress: Progress, statement: Send<Answer>): Promise<Answer> {
  if (progress.isOver) throw overError();
  try {
    return await link.send(statement);
  } catch (error) {
    const failure = progress.isCommitting ? error : uncommitted(error);
    if (failure instanceof DatabaseError && !progress.isOver) link.onFailure(failure);
    throw failure;
  }
}

/** A statement without an answer, before COMMIT: it may have been carried out, but it is not committed. */
function uncommitted(error: unknown): unknown {
  if (!(error instanceof DatabaseError) || error.kind !== 'unknown') return error;
  return new DatabaseError('unavailable', error.message, error.sqlState, { cause: error });
}

function command(text: string): Send<void> {
  return (client, done) => {
    client.query(text).then(() => done(undefined), done);
  };
}

function overError(): Error {
  return new Error('this transaction is over: its tx cannot run further statements');
}

type Statements = {
  execute<Answer>(send: Send<Answer>): Promise<Answer>;
  /** Refuses further statements and waits for those that are under way. */
  close(): Promise<void>;
  /** Why PostgreSQL carries out nothing more in this transaction. */
  failure(): unknown;
};

/** The statements of one attempt, one after the other: PostgreSQL carries out one at a time on a connection. */
function createStatements(send: <Answer>(statement: Send<Answer>) => Promise<Answer>): Statements {
  let last: Promise<unknown> = Promise.resolve();
  let isClosed = false;
  let failure: unknown;
  return {
    execute(statement) {
      if (isClosed) return Promise.reject(overError());
      const answer = last.then(() => send(statement));
      last = answer.catch((error: unknown) => {
        failure ??= error;
      });
      return answer;
    },
    async close() {
      isClosed = true;
      await last;
    },
    failure: () => failure,
  };
}
