/**
 * The database as the rest of the server sees it: three small pools that cannot starve each other.
 * - `control`: claims, outcomes, sessions. Bulk work never takes its connections.
 * - `bulk`: adding jobs.
 * - `reads`: lists and statistics for the API; its statements have a time limit.
 *
 * Every statement has a deadline. Past it the connection is destroyed, never cancelled: a cancelled
 * synchronous commit would answer "done" without being so. What then became of the statement is unknown,
 * and the error says that (`DatabaseError.unknown`); all our writes may be repeated.
 */
import pg from 'pg';
import { DatabaseError, toDatabaseError } from './database-error.js';
import type { Statement } from './statement.js';

export type Runner = {
  /** Runs one statement as a transaction of its own and gives its rows. */
  run<Row extends object>(statement: Statement, values?: unknown[]): Promise<Row[]>;
  /** The same with each row as an array of texts: for the hot path, where building objects counts. */
  runRaw(statement: Statement, values?: unknown[]): Promise<(string | null)[][]>;
};

export type Database = {
  readonly control: Runner;
  readonly bulk: Runner;
  readonly reads: Runner;
  close(): Promise<void>;
};

export type DatabaseOptions = {
  url: string;
  poolSize: number;
  /** Milliseconds a statement of control and bulk may take before its connection is given up. */
  deadlineMs?: number;
  onError?: (error: Error) => void;
};

const CONNECT_TIMEOUT_MS = 5000;
const DEFAULT_DEADLINE_MS = 30_000;
const READ_TIMEOUT_MS = 15_000;

/**
 * Settings of our own connections. Plans must not depend on how full the tables were when a plan was
 * made: a scan chosen for an empty table would be kept for a full one, so the hot path may only use
 * indexes. Behind a pooler in transaction mode these are hints that may not arrive; set them for the role.
 */
const SESSION_SETTINGS = "set idle_in_transaction_session_timeout = '30s'; set jit = off; set timezone = 'UTC'";
const HOT_PATH_SETTINGS = `${SESSION_SETTINGS}; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set plan_cache_mode = force_generic_plan`;
const READ_SETTINGS = `${SESSION_SETTINGS}; set statement_timeout = ${READ_TIMEOUT_MS}`;

/** Texts instead of parsed values: the hot path passes JSON on without reading it. */
const TEXT_ONLY = { getTypeParser: () => (value: string) => value };

export function connectDatabase(options: DatabaseOptions): Database {
  const deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
  const control = createRunner(options, HOT_PATH_SETTINGS, deadlineMs);
  const bulk = createRunner(options, HOT_PATH_SETTINGS, deadlineMs);
  const reads = createRunner(options, READ_SETTINGS, READ_TIMEOUT_MS + CONNECT_TIMEOUT_MS);
  return {
    control,
    bulk,
    reads,
    async close() {
      await Promise.all([control.end(), bulk.end(), reads.end()]);
    },
  };
}

function createRunner(
  options: DatabaseOptions,
  settings: string,
  deadlineMs: number,
): Runner & { end(): Promise<void> } {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: 'drover',
  });
  pool.on('connect', (client) => {
    // also while it is in use: the pool listens only to idle ones, and an error that nobody hears ends the process
    client.on('error', (error) => options.onError?.(error));
    client.query(settings).catch((error: Error) => options.onError?.(error));
  });
  pool.on('error', (error) => options.onError?.(error));

  async function execute(query: pg.QueryConfig | pg.QueryArrayConfig) {
    const client = await pool.connect().catch((error: Error) => {
      throw toDatabaseError(error, 'not sent');
    });
    let failure: Error | undefined;
    const deadline = setTimeout(() => {
      failure = new DatabaseError('unknown', `no answer within ${deadlineMs} ms`);
      destroySocket(client);
    }, deadlineMs);
    try {
      return await client.query(query);
    } catch (error) {
      failure ??= toDatabaseError(error as Error, 'sent');
      throw failure;
    } finally {
      clearTimeout(deadline);
      client.release(failure instanceof DatabaseError && failure.kind === 'unknown' ? failure : undefined);
    }
  }

  return {
    async run<Row extends object>(statement: Statement, values: unknown[] = []) {
      const { rows } = await execute({ name: statement.name, text: statement.text, values });
      return rows as Row[];
    },
    async runRaw(statement, values = []) {
      const query = { name: statement.name, text: statement.text, values, rowMode: 'array' as const, types: TEXT_ONLY };
      const { rows } = await execute(query);
      return rows as (string | null)[][];
    },
    end: () => pool.end(),
  };
}

/** A half-open connection answers nothing, not even a close; only its socket can be ended. */
function destroySocket(client: pg.PoolClient): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}
