/**
 * A connection that can be destroyed and that knows whether it can still be used. `pg` publishes no way to destroy one: `end`
 * waits for the answer of a frozen host. It does publish the `stream` option, so the socket is made here.
 */
import { Socket } from 'node:net';
import { within } from '@drover/protocol/within';
import pg from 'pg';
import { DatabaseError } from './database-error.js';

/**
 * The function of PostgreSQL that warns that a commit is answered before it has reached its standby. The text of the warning
 * depends on the language of the server, the name of the function does not.
 */
const NOT_REPLICATED = 'SyncRepWaitForLSN';

export class DatabaseClient extends pg.Client {
  /** Why the connection cannot be used any more. */
  broken: Error | undefined;
  /** The result of the statement under way, whatever PostgreSQL answers. */
  failure: DatabaseError | undefined;
  readonly #socket: Socket;

  constructor(config: pg.ClientConfig = {}) {
    const problem = problemOf(config);
    const socket = problem === undefined ? new Socket() : new FailingSocket(problem);
    super({ ...(problem === undefined ? config : {}), stream: () => socket });
    this.#socket = socket;
    // A listener for the whole life of the connection, because an `error` event without one ends the process.
    this.on('error', (error) => {
      this.broken ??= error;
    });
    this.on('end', () => {
      this.broken ??= new Error('the connection has ended');
    });
    this.on('notice', ({ message, routine }) => {
      if (routine === NOT_REPLICATED) this.failure = new DatabaseError('unknown', message ?? NOT_REPLICATED);
    });
  }

  /** Ends the connection, at once if the other side does not answer in time: a host that is cut off never does. */
  async endWithin(ms: number): Promise<void> {
    await within(
      ms,
      this.end().catch(() => {
        // it has ended already
      }),
    );
    this.destroy(new Error('the connection has ended'));
  }

  /** Ends the connection at once, also if the other side does not answer. */
  destroy(reason: Error): void {
    this.broken ??= reason;
    this.#socket.destroy();
  }
}

/**
 * The constructor of `pg` reads the certificates that the connection string names, and throws if it cannot. `pg-pool` calls it
 * in event handlers, where an exception ends the process, so the error comes from `connect` instead.
 */
function problemOf(config: pg.ClientConfig): Error | undefined {
  try {
    new pg.Client(config);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

class FailingSocket extends Socket {
  readonly #problem: Error;

  constructor(problem: Error) {
    super();
    this.#problem = problem;
  }

  override connect(): this {
    return this.destroy(this.#problem);
  }
}
