/** A database for one test file: cloned from the migrated template with its guard of moves, so it costs some 50 ms. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { checkNothingRefused } from './guard-moves.js';

const POOL_SIZE = 10;
/** The template cannot be cloned while another file clones it: PostgreSQL refuses, so we take turns. */
const CLONE_LOCK_KEY = '7236837530';

export type TestDatabase = {
  url: string;
  name: string;
  pool: pg.Pool;
  /** Fails if the guard of moves has refused a statement. */
  drop(): Promise<void>;
};

export async function createTestDatabase(options: { empty?: boolean } = {}): Promise<TestDatabase> {
  const name = `${inject('databasePrefix')}_${randomBytes(4).toString('hex')}`;
  const template = options.empty ? 'template0' : inject('templateName');
  await onServer(async (client) => {
    await client.query('select pg_advisory_lock($1)', [CLONE_LOCK_KEY]);
    await client.query(`create database ${name} template ${template}`);
  });
  const url = new URL(inject('databaseUrl'));
  url.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: url.href, max: POOL_SIZE });
  // Connections that are idle when a test restarts or drops the database end with an error of no interest.
  pool.on('error', () => {});
  return {
    url: url.href,
    name,
    pool,
    drop: async () => {
      try {
        if (!options.empty) await checkNothingRefused(pool);
      } finally {
        await pool.end();
        await onServer((client) => client.query(`drop database if exists ${name} with (force)`));
      }
    },
  };
}

async function onServer(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: inject('databaseUrl') });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
