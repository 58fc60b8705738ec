/**
 * Runs statements and transactions on the connections of one pool. A statement takes a connection and gives it back before its
 * caller learns the result; a transaction keeps one connection to its end.
 */
import pg from 'pg';
import { spanText } from '../base/span-text.js';
import { DatabaseClient } from './database-client.js';
import { DatabaseError, toDatabaseError } from './database-error.js';
import { createRunner, type Send } from './runner.js';
import { runTransaction, type Transaction, type TransactionRunner } from './transaction.js';

type PoolRunnerOptions = {
  url: string;
  /** How many connections there are at most. */
  max: number;
  /** The first statements on each connection. */
  settings: string;
  deadlineMs: number;
  /** Resolves when the host to use is known. Undefined if it is known already. */
  ready: () => Promise<void> | undefined;
  onError: (error: Error) => void;
  /** Called when a statement has failed. */
  onFailure: (error: DatabaseError) => void;
  /** Called when a statement or a transaction was answered. */
  onAnswer: () => void;
};

export type PoolRunner = TransactionRunner & { moveTo(url: string): void; end(): Promise<void> };

/** How long to wait for a free connection, and for a new one. */
const CONNECT_TIMEOUT_MS = 5000;
const IDLE_LIMIT_MS = 60_000;

export function createPoolRunner(options: PoolRunnerOptions): PoolRunner {
  let pool = connectTo(options.url);
  let ended: Promise<void> | undefined;

  function connectTo(url: string): pg.Pool {
    const created = new pg.Pool({
      ...{ connectionString: url, max: options.max, application_name: 'drover', keepAlive: true },
      ...{ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, idleTimeoutMillis: IDLE_LIMIT_MS, Client: DatabaseClient },
    });
    created.on('error', options.onError);
    // Not awaited: the next statement waits for it, and has a deadline.
    created.on('connect', (client) => void client.query(options.settings).catch(options.onError));
    return created;
  }

  async function take(): Promise<Taken> {
    try {
      const choosing = options.ready();
      if (choosing !== undefined) await choosing;
      return await connectionOf(pool);
    } catch (error) {
      const failure = toDatabaseError(error as Error, 'not sent');
      options.onFailure(failure);
      throw failure;
    }
  }

  async function execute<Answer>(send: Send<Answer>): Promise<Answer> {
    const client = await take();
    try {
      const answer = await sendOn(client, send, options.deadlineMs);
      options.onAnswer();
      return answer;
    } catch (error) {
      if (error instanceof DatabaseError) options.onFailure(error);
      throw error;
    } finally {
      // Released only after the packet with the answer is read completely: it can also say that the database shuts
      // down.
      client.release(client.broken);
    }
  }

  const transaction: Transaction = async (work, { deadlineMs = options.deadlineMs } = {}) => {
    const client = await take();
    const link = {
      send: <Answer>(send: Send<Answer>) => sendOn(client, send, options.deadlineMs),
      destroy: (failure: DatabaseError) => client.destroy(failure),
      onFailure: options.onFailure,
    };
    try {
      const value = await runTransaction(link, work, deadlineMs);
      options.onAnswer();
      return value;
    } finally {
      client.release(client.broken);
    }
  };

  return {
    ...createRunner(execute),
    transaction,
    moveTo(url) {
      const left = pool;
      pool = connectTo(url);
      left.end().catch(options.onError);
    },
    end() {
      ended ??= pool.end();
      return ended;
    },
  };
}

type Taken = DatabaseClient & pg.PoolClient;

/** With a callback, because pg-pool's promise API creates three promises per call. */
function connectionOf(pool: pg.Pool): Promise<Taken> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client) => {
      if (client instanceof DatabaseClient) resolve(client);
      else reject(error ?? new TypeError('the pool must open a DatabaseClient'));
    });
  });
}

function sendOn<Answer>(client: DatabaseClient, send: Send<Answer>, deadlineMs: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let isDone = false;
    client.failure = client.broken && toDatabaseError(client.broken, 'not sent');
    const timer = setTimeout(() => {
      client.failure = new DatabaseError('unknown', `no answer within ${spanText(deadlineMs)}`);
      client.destroy(client.failure);
      done(client.failure);
    }, deadlineMs);
    const done = (error: Error | undefined, answer?: Answer) => {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      const failure = client.failure ?? (error ? toDatabaseError(error, 'sent') : undefined);
      // a statement that was refused leaves the connection as it was
      if (failure !== undefined && failure.kind !== 'refused') client.broken ??= failure;
      if (failure === undefined) resolve(answer as Answer);
      else reject(failure);
    };
    if (client.failure !== undefined) return done(client.failure);
    try {
      send(client, done);
    } catch (error) {
      done(error as Error);
    }
  });
}
