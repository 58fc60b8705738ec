/**
 * One PostgreSQL for the whole run, with a migrated and guarded template database that each test file clones.
 * `DROVER_TEST_DATABASE_URL` names another server to run on; its user must be allowed to create databases.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '../../src/db/embedded.js';
import { migrate } from '../../src/db/migrate.js';
import { guardMoves } from './guard-moves.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** A database of the test server whose user may create others. */
    databaseUrl: string;
    /** The migrated database to clone. */
    templateName: string;
    /** What the names of all databases of this run begin with. */
    databasePrefix: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, stop } = await startTestServer();
  const databasePrefix = `drover_test_${randomBytes(4).toString('hex')}`;
  const templateName = `${databasePrefix}_template`;
  try {
    await onServer(url, (client) => client.query(`create database ${templateName}`));
    const templateUrl = withDatabase(url, templateName);
    await migrate(templateUrl);
    await onServer(templateUrl, guardMoves);
  } catch (error) {
    await stop();
    throw error;
  }
  project.provide('databaseUrl', url);
  project.provide('templateName', templateName);
  project.provide('databasePrefix', databasePrefix);

  return async () => {
    await onServer(url, (client) => dropAll(client, databasePrefix));
    await stop();
  };
}

async function startTestServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const given = process.env.DROVER_TEST_DATABASE_URL;
  if (given) return { url: given, stop: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), 'drover-test-'));
  const embedded = await startEmbeddedPostgres({ dataDir: folder, settings: { max_connections: '300' } });
  return {
    url: embedded.url,
    stop: async () => {
      await embedded.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Also those that a failed test file has left. */
async function dropAll(client: pg.Client, prefix: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    'select datname as name from pg_database where starts_with(datname, $1)',
    [prefix],
  );
  for (const { name } of rows) await client.query(`drop database if exists ${name} with (force)`);
}

async function onServer(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
