/**
 * The database as the rest of the server sees it: three small pools that cannot starve each other.
 * - `control`: claims, outcomes, sessions. Bulk work never takes its connections.
 * - `bulk`: adding jobs.
 * - `reads`: lists and statistics for the API; its statements have a time limit.
 *
 * Every statement has a deadline. Past it the connection is destroyed, never cancelled: a cancelled
 * synchronous commit would answer "done" without being so. What then became of the statement is unknown,
 * and the error says that (`DatabaseError.kind`); all our writes may be repeated.
 *
 * With several hosts in the connection string, the pools belong to the one that was chosen (choose-host); a
 * failure makes us choose again, and a change of host throws the old connections away.
 */
import type pg from 'pg';
import { bestOf, type Candidate, findWritable } from './choose-host.js';
import { type Connection, type Connections, createConnections } from './connections.js';
import { copyIn } from './copy-in.js';
import { DatabaseError, type DatabaseErrorKind, isPassing, toDatabaseError } from './database-error.js';
import { splitHosts } from './split-hosts.js';
import type { Statement } from './statement.js';
import { queryTexts, type TextRow, type TextValue } from './text-query.js';

export type Runner = {
  /** Runs one statement as a transaction of its own and gives its rows. */
  run<Row extends object>(statement: Statement, values?: unknown[]): Promise<Row[]>;
  /** The same with texts for values and rows of texts: for the hot path, where everything counts. */
  runTexts(statement: Statement, values: readonly TextValue[]): Promise<TextRow[]>;
  /** Runs a text that begins with a COPY from this data, as one transaction; see copy-in. */
  copyIn(text: string, data: Buffer): Promise<void>;
};

export type Database = {
  readonly control: Runner;
  readonly bulk: Runner;
  readonly reads: Runner;
  /** The connection string of the host in use. */
  url(): string;
  close(): Promise<void>;
};

export type DatabaseOptions = {
  url: string;
  poolSize: number;
  /** Milliseconds a statement of control and bulk may take before its connection is given up. */
  deadlineMs?: number;
  onError?: (error: Error) => void;
  /** A statement has failed. */
  onFailure?: (kind: DatabaseErrorKind) => void;
  /** The pools have moved to another host. */
  onMove?: (url: string) => void;
};

const DEFAULT_DEADLINE_MS = 30_000;
const READ_TIMEOUT_MS = 15_000;
/** A read is ended by PostgreSQL itself; this is for one that does not answer at all. */
const READ_DEADLINE_MS = 20_000;

/**
 * A backend that waits for the rest of what a lost server was sending it has a snapshot, which holds up vacuum, and would
 * keep it for hours. Nothing else ends it.
 */
const KEEP_ALIVE =
  'set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3; set tcp_user_timeout = 30000';

/**
 * Settings of our own connections. Plans must not depend on how full the tables were when a plan was
 * made: a scan chosen for an empty table would be kept for a full one, so the hot path may only use
 * indexes. Behind a pooler in transaction mode these are hints that may not arrive; set them for the role.
 */
const SESSION_SETTINGS = `set default_transaction_isolation = 'read committed'; set idle_in_transaction_session_timeout = '30s'; set jit = off; set timezone = 'UTC'; ${KEEP_ALIVE}`;
const HOT_PATH_SETTINGS = `${SESSION_SETTINGS}; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set max_parallel_workers_per_gather = 0; set plan_cache_mode = force_generic_plan`;
/**
 * Lists are pages of an index. With the price that PostgreSQL puts on reading one by default, that of a spinning disk, it
 * sorted all of a day with some 20,000 jobs instead.
 */
const READ_SETTINGS = `${SESSION_SETTINGS}; set random_page_cost = 1.1; set statement_timeout = ${READ_TIMEOUT_MS}`;

/**
 * Where in PostgreSQL the warning comes from that a commit is answered without having reached its standby. Its
 * text depends on the language of the server, this does not.
 */
const NOT_REPLICATED = 'SyncRepWaitForLSN';

export function connectDatabase(options: DatabaseOptions): Database {
  const hosts = splitHosts(options.url);
  const deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
  let chosen: Candidate | undefined;
  let choosing: Promise<void> | undefined;
  let url = hosts[0] as string;
  const runners = [
    createRunner(options, HOT_PATH_SETTINGS, deadlineMs, ready, failed),
    createRunner(options, HOT_PATH_SETTINGS, deadlineMs, ready, failed),
    createRunner(options, READ_SETTINGS, READ_DEADLINE_MS, ready, failed),
  ] as const;
  const [control, bulk, reads] = runners;

  async function choose(): Promise<void> {
    const best = bestOf(await findWritable(hosts), chosen);
    if (!best)
      throw new DatabaseError('unavailable', `none of the ${hosts.length} database hosts is writable and up to date`);
    const moved = chosen?.url !== best.url;
    chosen = best;
    if (!moved) return;
    url = best.url;
    for (const runner of runners) runner.moveTo(url);
    options.onMove?.(url);
  }

  /** With one host there is nothing to choose. */
  function ready(): Promise<void> | undefined {
    if (hosts.length === 1 || chosen) return choosing;
    choosing ??= choose().finally(() => {
      choosing = undefined;
    });
    return choosing;
  }

  function failed(error: unknown): void {
    if (hosts.length === 1 || choosing || !isPassing(error)) return;
    choosing = choose()
      .catch((reason: Error) => options.onError?.(reason))
      .finally(() => {
        choosing = undefined;
      });
  }

  return {
    control,
    bulk,
    reads,
    url: () => url,
    async close() {
      await Promise.all(runners.map((runner) => runner.end()));
    },
  };
}

/** Sends a statement and calls `done` once, with the error or the answer. */
type Send<Answer> = (client: pg.ClientBase, done: (error: Error | undefined, answer?: Answer) => void) => void;

type OwnedRunner = Runner & { moveTo(url: string): void; end(): Promise<void> };

function createRunner(
  options: DatabaseOptions,
  settings: string,
  deadlineMs: number,
  ready: () => Promise<void> | undefined,
  failed: (error: unknown) => void,
): OwnedRunner {
  let connections = connectTo(splitHosts(options.url)[0] as string);

  function connectTo(url: string): Connections {
    return createConnections({
      ...{ url, settings, deadlineMs, max: options.poolSize },
      onOpen: noticeUnreplicated,
      onError: (error) => options.onError?.(error),
    });
  }

  /** Without a promise in between where a connection is free, as it mostly is. */
  function execute<Answer>(send: Send<Answer>): Promise<Answer> {
    const choosing = ready();
    if (choosing === undefined) return executeOn(connections, send);
    return choosing.then(() => executeOn(connections, send), notSent);
  }

  function executeOn<Answer>(from: Connections, send: Send<Answer>): Promise<Answer> {
    const taken = from.take();
    if (!(taken instanceof Promise)) return sendOn(from, taken, send);
    return taken.then((connection) => {
      if (connection.broken === undefined) return sendOn(from, connection, send);
      // in one packet with the answer to whom it was before came that the database shuts down
      from.giveBack(connection);
      return executeOn(from, send);
    }, notSent);
  }

  function notSent(error: Error): never {
    throw told(toDatabaseError(error, 'not sent'));
  }

  function sendOn<Answer>(from: Connections, connection: Connection, send: Send<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const done = (error: Error | undefined, answer?: Answer) => {
        const failure = connection.failure ?? (error ? toDatabaseError(error, 'sent') : undefined);
        // a statement that was refused leaves the connection as it was
        if (failure !== undefined && failure.kind !== 'refused') connection.broken ??= failure;
        from.giveBack(connection);
        if (failure === undefined) resolve(answer as Answer);
        else reject(told(failure));
      };
      try {
        send(connection.client, done);
      } catch (error) {
        done(error as Error);
      }
    });
  }

  function told(error: DatabaseError): DatabaseError {
    options.onFailure?.(error.kind);
    failed(error);
    return error;
  }

  return {
    run<Row extends object>(statement: Statement, values: unknown[] = []) {
      const query = { name: statement.name, text: statement.text, values };
      return execute<Row[]>((client, done) => {
        client.query(query).then(({ rows }) => done(undefined, rows as Row[]), done);
      });
    },
    runTexts: (statement, values) => execute((client, done) => queryTexts(client, statement, values, done)),
    copyIn: (text, data) => execute((client, done) => copyIn(client, text, data, done)),
    moveTo(url) {
      const left = connections;
      connections = connectTo(url);
      left.end().catch((error: Error) => options.onError?.(error));
    },
    end: () => connections.end(),
  };
}

/** A commit that is answered without having reached its standby has not done what its answer says. */
function noticeUnreplicated(connection: Connection): void {
  connection.client.on('notice', ({ message, routine }) => {
    if (routine === NOT_REPLICATED) connection.failure = new DatabaseError('unknown', message ?? NOT_REPLICATED);
  });
}
