/**
 * Runs statements and transactions on the connections of one pool. A statement takes a connection and gives it back before its
 * caller learns the result; a transaction keeps one connection to its end.
 */
import { type Connection, type Connections, createConnections } from './connections.js';
import { DatabaseError, toDatabaseError } from './database-error.js';
import { destroySocket } from './destroy-socket.js';
import { createRunner, type Send } from './runner.js';
import { runTransaction, type Transaction, type TransactionRunner } from './transaction.js';

type PoolRunnerOptions = {
  url: string;
  max: number;
  settings: string;
  deadlineMs: number;
  /** Resolves when it is known which host to use; nothing if that is known already. */
  ready: () => Promise<void> | undefined;
  onError: (error: Error) => void;
  /** A statement has failed. */
  onFailure: (error: DatabaseError) => void;
};

export type PoolRunner = TransactionRunner & { moveTo(url: string): void; end(): Promise<void> };

export function createPoolRunner(options: PoolRunnerOptions): PoolRunner {
  let connections = connectTo(options.url);

  function connectTo(url: string): Connections {
    const { max, settings, deadlineMs, onError } = options;
    return createConnections({ url, max, settings, deadlineMs, onError, onOpen: noticeUnreplicated });
  }

  /** Makes no promise where a connection is free, which is the usual case. */
  function execute<Answer>(send: Send<Answer>): Promise<Answer> {
    const choosing = options.ready();
    if (choosing === undefined) return executeOn(connections, send);
    return choosing.then(() => executeOn(connections, send), notSent);
  }

  function executeOn<Answer>(from: Connections, send: Send<Answer>): Promise<Answer> {
    const taken = from.take();
    if (!(taken instanceof Promise)) return sendAndGiveBack(from, taken, send);
    return taken.then((connection) => {
      if (connection.broken === undefined) return sendAndGiveBack(from, connection, send);
      // the packet with the answer to its last statement also said that the database shuts down
      from.giveBack(connection);
      return executeOn(from, send);
    }, notSent);
  }

  function sendAndGiveBack<Answer>(from: Connections, connection: Connection, send: Send<Answer>): Promise<Answer> {
    return sendOn(connection, send, (failure) => {
      from.giveBack(connection);
      if (failure !== undefined) options.onFailure(failure);
    });
  }

  async function take(from: Connections): Promise<Connection> {
    for (;;) {
      const connection = await from.take();
      if (connection.broken === undefined) return connection;
      from.giveBack(connection);
    }
  }

  function notSent(error: Error): never {
    const failure = toDatabaseError(error, 'not sent');
    options.onFailure(failure);
    throw failure;
  }

  const transaction: Transaction = async (work, { deadlineMs = options.deadlineMs } = {}) => {
    await options.ready()?.catch(notSent);
    const from = connections;
    const connection = await take(from).catch(notSent);
    const link = {
      send: <Answer>(send: Send<Answer>) => sendOn(connection, send),
      destroy(failure: DatabaseError) {
        connection.broken ??= failure;
        destroySocket(connection.client);
      },
      onFailure: options.onFailure,
    };
    try {
      return await runTransaction(link, work, deadlineMs);
    } finally {
      from.giveBack(connection);
    }
  };

  return {
    ...createRunner(execute),
    transaction,
    moveTo(url) {
      const left = connections;
      connections = connectTo(url);
      left.end().catch(options.onError);
    },
    end: () => connections.end(),
  };
}

/** Sends on one connection; `settled` is called before the promise settles. */
function sendOn<Answer>(
  connection: Connection,
  send: Send<Answer>,
  settled?: (failure: DatabaseError | undefined) => void,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const done = (error: Error | undefined, answer?: Answer) => {
      const failure = connection.failure ?? (error ? toDatabaseError(error, 'sent') : undefined);
      // a statement that was refused leaves the connection as it was
      if (failure !== undefined && failure.kind !== 'refused') connection.broken ??= failure;
      settled?.(failure);
      if (failure === undefined) resolve(answer as Answer);
      else reject(failure);
    };
    if (connection.broken !== undefined) return done(toDatabaseError(connection.broken, 'not sent'));
    try {
      send(connection.client, done);
    } catch (error) {
      done(error as Error);
    }
  });
}

/**
 * Where in PostgreSQL the warning comes from that a commit is answered without having reached its standby. Its
 * text depends on the language of the server, this does not.
 */
const NOT_REPLICATED = 'SyncRepWaitForLSN';

/** A commit that is answered without having reached its standby has not done what its answer says. */
function noticeUnreplicated(connection: Connection): void {
  connection.client.on('notice', ({ message, routine }) => {
    if (routine === NOT_REPLICATED) connection.failure = new DatabaseError('unknown', message ?? NOT_REPLICATED);
  });
}
