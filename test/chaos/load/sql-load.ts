/** Adds jobs by the SQL function, in transactions of its own that commit or roll back. */
import { setTimeout as delay } from 'node:timers/promises';
import { enqueueWith } from '@drover/sdk/postgres';
import pg from 'pg';
import { nowMs } from '../clock.js';
import type { Random } from '../random.js';
import type { LedgerWriter } from './ledger-writer.js';
import { draw, mixAt, optionsOf, type PlannedJob } from './mix.js';

const EVERY_MS = 200;
const MAX_JOBS = 3;
const ROLLBACK_SHARE = 0.2;
const STATEMENT_TIMEOUT_MS = 10_000;
/** Only used for its shares: long jobs are added by the API only. */
const NOMINAL_RATE = 1_000_000;

export function createSqlLoad(
  databaseUrl: string,
  ledger: LedgerWriter,
  random: Random,
  acknowledged: (count: number) => void,
): { stop(): Promise<void> } {
  const pool = new pg.Pool({
    ...{ connectionString: databaseUrl, max: 1, connectionTimeoutMillis: 3000, query_timeout: STATEMENT_TIMEOUT_MS },
  });
  // connections end with every restart of the database, idle or in use; the next statement then fails
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  const mix = mixAt(NOMINAL_RATE);
  let isStopped = false;

  async function addSome(): Promise<void> {
    const jobs = Array.from({ length: random.whole(1, MAX_JOBS) }, () => draw(random, mix)).filter(isPlain);
    const isRolledBack = random.next() < ROLLBACK_SHARE;
    const [sentAt, sentWallMs] = [nowMs(), Date.now()];
    const client = await pool.connect().catch(() => undefined);
    // the database is unavailable
    if (!client) return;
    let isCommitting = false;
    try {
      await client.query('begin');
      for (const job of jobs) {
        await enqueueWith(
          (sql, values) => client.query(sql, values),
          job.type,
          job.payload,
          optionsOf(job, sentWallMs),
        );
      }
      isCommitting = !isRolledBack;
      await client.query(isRolledBack ? 'rollback' : 'commit');
      ledger.added(jobs, isRolledBack ? 'refused' : 'acknowledged', 'sql', sentAt);
      if (!isRolledBack) acknowledged(jobs.length);
      client.release();
    } catch {
      // before the commit was sent nothing happened; after that the result is unknown
      ledger.added(jobs, isCommitting ? 'unknown' : 'refused', 'sql', sentAt);
      client.release(true);
    }
  }

  async function run(): Promise<void> {
    while (!isStopped) {
      await addSome();
      await delay(EVERY_MS);
    }
    await pool.end();
  }

  const running = run();
  return {
    stop() {
      isStopped = true;
      return running;
    },
  };
}

/** The follow-ups of the other types use the API. */
function isPlain({ type }: PlannedJob): boolean {
  return type !== 'cancelled';
}
