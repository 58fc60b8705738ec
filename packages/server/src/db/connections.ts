/**
 * The connections of one pool: opened when they are needed, up to `max`, each for one statement at a time. One that is free is
 * had at once, without a promise, a timer or a listener of its own as with pg-pool: see decision 0018.
 *
 * What always holds: a connection is being opened, in use, free, or gone; whoever waits for one gets the next that is given
 * back, one opened in place of one that is gone, or an error after CONNECT_TIMEOUT_MS; one that breaks while it is free is not
 * given out; one that is in use for longer than the deadline is destroyed.
 */
import pg from 'pg';
import { DatabaseError } from './database-error.js';
import { destroySocket } from './destroy-socket.js';

/** A connection, and what it has said beside the answers to its statements. */
export type Connection = {
  readonly client: pg.Client;
  /** When it was last taken, by the monotonic clock. */
  takenAt: number;
  /** What the statement under way has come to, whatever its answer says. */
  failure: DatabaseError | undefined;
  /** The connection is of no more use. */
  broken: Error | undefined;
};

export type Connections = {
  /** A promise only if it has to be waited for. */
  take(): Connection | Promise<Connection>;
  giveBack(connection: Connection): void;
  /** Those that are free end now, the others when they are given back. */
  end(): Promise<void>;
};

type ConnectionsOptions = {
  url: string;
  max: number;
  /** Sent before anything else. */
  settings: string;
  /** How long one may be in use; that is noticed up to a quarter later. */
  deadlineMs: number;
  onOpen(connection: Connection): void;
  onError(error: Error): void;
};

type Waiting = { resolve(connection: Connection | Promise<Connection>): void; reject(error: Error): void };

const CONNECT_TIMEOUT_MS = 5000;
const IDLE_LIMIT_MS = 60_000;

export function createConnections(options: ConnectionsOptions): Connections {
  /** The one that was used last is at the end, and used first. */
  let free: Connection[] = [];
  const inUse = new Set<Connection>();
  const waiting = new Set<Waiting>();
  let opening = 0;
  let sweep: NodeJS.Timeout | undefined;
  let watch: NodeJS.Timeout | undefined;
  let ended: Promise<void> | undefined;
  let gone = () => {};

  async function open(): Promise<Connection> {
    opening += 1;
    let connection: Connection;
    try {
      connection = await openOne();
    } catch (error) {
      opening -= 1;
      next();
      throw error;
    }
    opening -= 1;
    return use(connection);
  }

  /** Throws also if what the address names, such as a certificate, cannot be read. */
  async function openOne(): Promise<Connection> {
    const client = new pg.Client({
      connectionString: options.url,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      application_name: 'drover',
    });
    const connection: Connection = { client, takenAt: 0, failure: undefined, broken: undefined };
    // Always, also while it is in use: an error that nobody hears ends the process.
    client.on('error', (error) => {
      options.onError(error);
      drop(connection, error);
    });
    client.on('end', () => drop(connection, new Error('the connection has ended')));
    try {
      await client.connect();
    } catch (error) {
      leave(client);
      throw error;
    }
    options.onOpen(connection);
    client.query(options.settings).catch(options.onError);
    return connection;
  }

  function use(connection: Connection): Connection {
    connection.takenAt = performance.now();
    connection.failure = undefined;
    inUse.add(connection);
    watchLater();
    return connection;
  }

  /** One timer for all, instead of one for each statement. */
  function watchLater(): void {
    watch ??= setTimeout(() => {
      watch = undefined;
      const takenBefore = performance.now() - options.deadlineMs;
      for (const connection of inUse) if (connection.takenAt <= takenBefore) giveUp(connection);
      if (inUse.size > 0) watchLater();
    }, options.deadlineMs / 4).unref();
  }

  function giveUp(connection: Connection): void {
    connection.failure = new DatabaseError('unknown', `no answer within ${options.deadlineMs} ms`);
    destroySocket(connection.client);
  }

  function drop(connection: Connection, error: Error): void {
    connection.broken ??= error;
    if (!free.includes(connection)) return;
    free = free.filter((other) => other !== connection);
    leave(connection.client);
  }

  /** It need not answer: a connection that stands still must not hold up anybody. */
  function leave(client: pg.Client): void {
    client.end().catch(options.onError);
  }

  /** There is room for one more: whoever has waited longest is served. */
  function next(): void {
    if (ended !== undefined && inUse.size + opening === 0) {
      clearTimeout(watch);
      gone();
    }
    const [first] = waiting;
    if (first === undefined || inUse.size + free.length + opening >= options.max) return;
    first.resolve(open());
  }

  function wait(): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        resolve(connection) {
          settle();
          resolve(connection);
        },
        reject(error) {
          settle();
          reject(error);
        },
      };
      const timer = setTimeout(
        () => entry.reject(new Error(`no connection to the database was free within ${CONNECT_TIMEOUT_MS} ms`)),
        CONNECT_TIMEOUT_MS,
      );
      function settle(): void {
        clearTimeout(timer);
        waiting.delete(entry);
      }
      waiting.add(entry);
    });
  }

  /** Ends what has been free for long. */
  function sweepLater(): void {
    sweep ??= setTimeout(() => {
      sweep = undefined;
      const takenBefore = performance.now() - IDLE_LIMIT_MS;
      for (const { client } of free.filter(({ takenAt }) => takenAt < takenBefore)) leave(client);
      free = free.filter(({ takenAt }) => takenAt >= takenBefore);
      if (free.length > 0) sweepLater();
    }, IDLE_LIMIT_MS).unref();
  }

  return {
    take() {
      if (ended !== undefined) return Promise.reject(new Error('the connections to the database have been closed'));
      const connection = free.pop();
      if (connection !== undefined) return use(connection);
      return inUse.size + opening < options.max ? open() : wait();
    },
    giveBack(connection) {
      if (connection.broken !== undefined || ended !== undefined) {
        inUse.delete(connection);
        leave(connection.client);
        next();
        return;
      }
      const [first] = waiting;
      if (first !== undefined) return first.resolve(use(connection));
      inUse.delete(connection);
      free.push(connection);
      sweepLater();
    },
    end() {
      ended ??= new Promise((resolve) => {
        gone = resolve;
      });
      clearTimeout(sweep);
      for (const { client } of free.splice(0)) leave(client);
      for (const { reject } of [...waiting]) reject(new Error('the connections to the database have been closed'));
      next();
      return ended;
    },
  };
}
