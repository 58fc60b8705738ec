/**
 * Whether this server is alive and its dependencies work. Callers need no credential, so the answer contains no host,
 * user or query, and concurrent callers share one check of the database.
 */
import type { DeepPing } from '@drover/protocol';
import { within } from '@drover/protocol/within';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Engine } from '../engine/engine.js';
import type { RouteHandlers } from './route-handler.js';

/** A health check needs a quick answer, and a database that takes longer is of no use to jobs either. */
const DATABASE_LIMIT_MS = 2000;

const isReadOnly = sql('is_read_only')`
select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only`;

type Check = DeepPing['checks'][string];

/** `db` is the pool of the dispatcher, because its connection to the database has to work. */
export function healthHandlers(deps: { db: Runner; engine: Engine }): Pick<RouteHandlers, 'ping' | 'deepPing'> {
  let underWay: Promise<{ read_only: boolean }[]> | undefined;

  /** Callers that arrive while a query hangs share it, each with its own time limit. */
  function askDatabase(): Promise<{ read_only: boolean }[]> {
    underWay ??= deps.db.run<{ read_only: boolean }>(isReadOnly).finally(() => {
      underWay = undefined;
    });
    return underWay;
  }

  return {
    ping: () => 'pong\n',
    async deepPing({ setStatus }) {
      const database = await checkDatabase(askDatabase);
      const others = deps.engine
        .health()
        .map(({ check, status, message }): [string, Check] => [
          check,
          message === undefined ? { status } : { status, message },
        ]);
      const answer: DeepPing = {
        status: database.status === 'error' ? 'error' : overall(others.map(([, check]) => check)),
        checks: { database, ...Object.fromEntries(others) },
      };
      if (answer.status === 'error') setStatus(503);
      return answer;
    },
  };
}

function overall(checks: Check[]): DeepPing['status'] {
  return checks.some(({ status }) => status === 'error') ? 'partial_success' : 'okay';
}

async function checkDatabase(ask: () => Promise<{ read_only: boolean }[]>): Promise<Check> {
  const startedAt = performance.now();
  const ms = () => Math.round((performance.now() - startedAt) * 10) / 10;
  try {
    const answer = await within(DATABASE_LIMIT_MS, ask());
    if (answer?.value[0]?.read_only === false) return { status: 'okay', ms: ms() };
    const message = answer
      ? 'the database takes no changes'
      : `the database did not answer within ${DATABASE_LIMIT_MS} ms`;
    return { status: 'error', message, ms: ms() };
  } catch {
    // The pool has logged the error. Here it would reveal the database's host to strangers.
    return { status: 'error', message: 'the database cannot be reached', ms: ms() };
  }
}
