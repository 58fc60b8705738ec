/**
 * The database as the rest of the server sees it: three small pools that cannot starve each other.
 * - `control`: claims, outcomes, sessions. Bulk work never takes its connections.
 * - `bulk`: adding jobs.
 * - `reads`: lists and statistics for the API; its statements have a time limit.
 *
 * Every statement and every transaction has a deadline. Past it the connection is destroyed, never cancelled: a
 * synchronous commit that is cancelled answers "done" without being replicated. The outcome of the statement is then
 * unknown, and the error says so (`DatabaseError.kind`); every write can be repeated.
 *
 * With several hosts in the connection string, the pools connect to the chosen one (choose-host). A failure starts a
 * new choice, and a change of host closes the old connections.
 */

import { splitHosts } from '../base/split-hosts.js';
import { bestOf, type Candidate, findWritable } from './choose-host.js';
import { DatabaseError, isPassing } from './database-error.js';
import { createPoolRunner } from './pool-runner.js';
import type { Runner } from './runner.js';
import type { TransactionRunner } from './transaction.js';

export type { Runner } from './runner.js';
export type { TransactionRunner } from './transaction.js';

export type Database = {
  readonly control: TransactionRunner;
  readonly bulk: TransactionRunner;
  readonly reads: Runner;
  /** The connection string of the host in use. */
  url(): string;
  close(): Promise<void>;
};

export type DatabaseOptions = {
  url: string;
  poolSize: number;
  /** Milliseconds that a statement or a transaction of control and bulk may take before its connection is destroyed. */
  deadlineMs?: number;
  /** Called when a connection has failed without a statement, or no host can be chosen. */
  onError?: (error: Error) => void;
  /** Called when a statement has failed. */
  onFailure?: (error: DatabaseError) => void;
  /** Called when a statement or a transaction was answered. */
  onAnswer?: () => void;
  /** Called when the pools have moved to another host. */
  onMove?: (url: string) => void;
};

const DEFAULT_DEADLINE_MS = 30_000;
const READ_TIMEOUT_MS = 15_000;
/** PostgreSQL enforces the time limit of a read itself; this is for a read without any answer. */
const READ_DEADLINE_MS = 20_000;

/**
 * A backend that waits for the rest of a message from a lost server holds a snapshot, which blocks vacuum for hours. Only
 * these settings end it.
 */
const KEEP_ALIVE =
  'set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3; set tcp_user_timeout = 30000';

/**
 * Settings of a new connection. Plans must not depend on how full the tables were when a plan was made: PostgreSQL would
 * keep a scan chosen for an empty table when the table is full, so the hot path uses only indexes. Behind a pooler in
 * transaction mode these settings may not arrive; set them for the role.
 */
const SESSION_SETTINGS = `set default_transaction_isolation = 'read committed'; set idle_in_transaction_session_timeout = '30s'; set jit = off; set timezone = 'UTC'; ${KEEP_ALIVE}`;
const HOT_PATH_SETTINGS = `${SESSION_SETTINGS}; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set max_parallel_workers_per_gather = 0; set plan_cache_mode = force_generic_plan`;
/**
 * A list is a page of an index. With PostgreSQL's default cost of reading an index page, that of a spinning disk, it sorts
 * a whole day of 20,000 jobs instead.
 */
const READ_SETTINGS = `${SESSION_SETTINGS}; set random_page_cost = 1.1; set statement_timeout = ${READ_TIMEOUT_MS}`;

export function connectDatabase(options: DatabaseOptions): Database {
  const hosts = splitHosts(options.url);
  const deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
  let chosen: Candidate | undefined;
  let choosing: Promise<void> | undefined;
  let url = hosts[0] as string;
  const { onAnswer = () => {} } = options;
  let isClosed = false;
  const shared = { url, max: options.poolSize, ready, onError, onFailure, onAnswer };
  const runners = [
    createPoolRunner({ ...shared, settings: HOT_PATH_SETTINGS, deadlineMs }),
    createPoolRunner({ ...shared, settings: HOT_PATH_SETTINGS, deadlineMs }),
    createPoolRunner({ ...shared, settings: READ_SETTINGS, deadlineMs: READ_DEADLINE_MS }),
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

  /** What still waits for a closed database fails, which says nothing about it. */
  function onError(error: Error): void {
    if (!isClosed) options.onError?.(error);
  }

  function onFailure(error: DatabaseError): void {
    if (isClosed) return;
    options.onFailure?.(error);
    if (hosts.length === 1 || choosing || !isPassing(error)) return;
    choosing = choose()
      .catch(onError)
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
      isClosed = true;
      await Promise.all(runners.map((runner) => runner.end()));
    },
  };
}
