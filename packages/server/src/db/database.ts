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
import pg from 'pg';
import { bestOf, type Candidate, findWritable } from './choose-host.js';
import { copyIn } from './copy-in.js';
import { DatabaseError, type DatabaseErrorKind, isPassing, toDatabaseError } from './database-error.js';
import { destroySocket } from './destroy-socket.js';
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

const CONNECT_TIMEOUT_MS = 5000;
const DEFAULT_DEADLINE_MS = 30_000;
const READ_TIMEOUT_MS = 15_000;

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
    createRunner(options, READ_SETTINGS, READ_TIMEOUT_MS + CONNECT_TIMEOUT_MS, ready, failed),
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

type OwnedRunner = Runner & { moveTo(url: string): void; end(): Promise<void> };

function createRunner(
  options: DatabaseOptions,
  settings: string,
  deadlineMs: number,
  ready: () => Promise<void> | undefined,
  failed: (error: unknown) => void,
): OwnedRunner {
  let pool = createPool(options, settings, splitHosts(options.url)[0] as string);

  async function execute<Answer>(send: (client: pg.ClientBase) => Promise<Answer>): Promise<Answer> {
    try {
      const choosing = ready();
      if (choosing) await choosing;
      return await executeOn(pool, send, deadlineMs);
    } catch (error) {
      if (error instanceof DatabaseError) options.onFailure?.(error.kind);
      failed(error);
      throw error;
    }
  }

  return {
    async run<Row extends object>(statement: Statement, values: unknown[] = []) {
      const query = { name: statement.name, text: statement.text, values };
      const { rows } = await execute((client) => client.query(query));
      return rows as Row[];
    },
    runTexts: (statement, values) => execute((client) => queryTexts(client, statement, values)),
    copyIn: (text, data) => execute((client) => copyIn(client, text, data)),
    moveTo(url) {
      const left = pool;
      pool = createPool(options, settings, url);
      left.end().catch((error: Error) => options.onError?.(error));
    },
    end: () => pool.end(),
  };
}

function createPool(options: DatabaseOptions, settings: string, url: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: options.poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: 'drover',
  });
  pool.on('connect', (client) => {
    const trouble: Trouble = {};
    troubles.set(client, trouble);
    client.on('notice', ({ message, routine }) => {
      if (routine === NOT_REPLICATED) trouble.failure = new DatabaseError('unknown', message ?? NOT_REPLICATED);
    });
    // Also while it is in use: the pool listens only to idle ones, and an error that nobody hears ends the process. In one
    // packet with an answer may come that the server shuts down: then nobody waits for an answer any more.
    client.on('error', (error) => {
      trouble.broken = error;
      options.onError?.(error);
    });
    client.query(settings).catch((error: Error) => options.onError?.(error));
  });
  pool.on('error', (error) => options.onError?.(error));
  return pool;
}

/** What a connection says beside the answer to the statement under way. */
type Trouble = {
  /** The statement has not done what its answer says. */
  failure?: Error | undefined;
  /** The connection is of no more use. */
  broken?: Error | undefined;
};

const troubles = new WeakMap<pg.ClientBase, Trouble>();

async function executeOn<Answer>(
  pool: pg.Pool,
  send: (client: pg.ClientBase) => Promise<Answer>,
  deadlineMs: number,
): Promise<Answer> {
  const client = await pool.connect().catch((error: Error) => {
    throw toDatabaseError(error, 'not sent');
  });
  const trouble = troubles.get(client) as Trouble;
  trouble.failure = undefined;
  const deadline = setTimeout(() => {
    trouble.failure = new DatabaseError('unknown', `no answer within ${deadlineMs} ms`);
    destroySocket(client);
  }, deadlineMs);
  try {
    const result = await send(client);
    if (trouble.failure) throw trouble.failure;
    return result;
  } catch (error) {
    trouble.failure ??= toDatabaseError(error as Error, 'sent');
    throw trouble.failure;
  } finally {
    clearTimeout(deadline);
    const { failure, broken } = trouble;
    client.release(failure instanceof DatabaseError && failure.kind !== 'refused' ? failure : broken);
  }
}
