/**
 * Brings the schema `drover` to the level of this program.
 *
 * A migration is a plain SQL file, `migrations/NNNN_what.sql`, forward only and never edited once it has
 * landed. Each runs in one transaction that first takes an advisory lock bound to that transaction, so any
 * number of servers may start at once, also behind a transaction-mode pooler: one applies the file, the
 * others wait and then find it recorded. A death in the middle leaves nothing behind.
 *
 * Old and new programs share a schema during a rolling upgrade. A migration says in its first line
 * (`-- compatible-with: N`) which level a server must at least know to keep working beside it; without
 * that line it is the level before. A server that knows less refuses to start.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { chooseHost } from './choose-host.js';

const MIGRATIONS_DIRECTORY = new URL('../../migrations/', import.meta.url);
const FILE_PATTERN = /^(\d{4})_[a-z0-9_]+\.sql$/;
const COMPATIBLE_PATTERN = /^--\s*compatible-with:\s*(\d+)\s*$/;

const MIN_POSTGRES_VERSION = 14;
/** Any constant; it only must not be used by others in the same database. "drover" in ASCII. */
const LOCK_KEY = '110442659079538';
const CONNECT_TIMEOUT_MS = 10_000;
/** A statement that waits longer for a table lock gives up, because everything else queues behind it. */
const LOCK_TIMEOUT = '10s';

export type Migration = { version: number; name: string; sql: string; checksum: string; compatibleWith: number };
type AppliedMigration = { version: number; name: string; checksum: string; compatible_with: number };

export type SchemaState = 'current' | 'older' | 'newer-compatible';

/** The schema or the database is not one that this program can work with; the message says what to do. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

export type MigrateOptions = {
  logger?: Pick<Logger, 'info'>;
  /** The last version to apply; absent: all. */
  to?: number;
  /** Where the files are; tests bring their own. */
  directory?: URL;
};

/** Applies what is missing and says what it applied. */
export async function migrate(connectionString: string, options: MigrateOptions = {}): Promise<{ applied: string[] }> {
  const migrations = await loadMigrations(options.directory);
  const wanted = migrations.filter(({ version }) => options.to === undefined || version <= options.to);
  const client = new pg.Client({
    connectionString: await chooseHost(connectionString),
    application_name: 'drover migrate',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // Without a listener a lost connection would end the process; the query under way fails with the same error.
  client.on('error', () => {});
  await client.connect();
  try {
    await requireSupportedPostgres(client);
    const applied: string[] = [];
    await compareWithApplied(client, migrations);
    for (const migration of wanted) {
      if (await applyOnce(client, migration)) {
        applied.push(migration.name);
        options.logger?.info({ migration: migration.name }, 'migration applied');
      }
    }
    return { applied };
  } finally {
    await client.end();
  }
}

/** How the schema stands to this program. Throws if this program must not work with it. */
export async function checkSchema(
  client: Pick<pg.ClientBase, 'query'>,
  options: Pick<MigrateOptions, 'directory'> = {},
): Promise<SchemaState> {
  await requireSupportedPostgres(client);
  return compareWithApplied(client, await loadMigrations(options.directory));
}

/** The migrations of this program, in order. */
export async function loadMigrations(directory: URL = MIGRATIONS_DIRECTORY): Promise<Migration[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).sort();
  const migrations = await Promise.all(files.map((file) => loadMigration(directory, file)));
  migrations.forEach(({ version, name }, index) => {
    if (version === index + 1) return;
    throw new SchemaError(`migration ${name} should have the number ${index + 1}: numbers start at 1 without gaps`);
  });
  return migrations;
}

async function loadMigration(directory: URL, file: string): Promise<Migration> {
  const match = FILE_PATTERN.exec(file);
  if (!match) throw new SchemaError(`migration ${file} is not named like 0001_what.sql`);
  const version = Number(match[1]);
  // A checkout on Windows may have other line ends; the statements are the same.
  const sql = (await readFile(new URL(file, directory), 'utf8')).replaceAll('\r\n', '\n');
  const declared = COMPATIBLE_PATTERN.exec(sql.slice(0, sql.indexOf('\n')));
  return {
    version,
    name: file.slice(0, -'.sql'.length),
    sql,
    checksum: createHash('sha256').update(sql).digest('hex'),
    compatibleWith: declared ? Number(declared[1]) : version - 1,
  };
}

async function requireSupportedPostgres(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  const { rows } = await client.query<{ version: number; text: string }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_version') as text`,
  );
  const found = rows[0];
  if (found && found.version >= MIN_POSTGRES_VERSION * 10_000) return;
  throw new SchemaError(`Drover needs PostgreSQL ${MIN_POSTGRES_VERSION} or newer; this server is ${found?.text}`);
}

async function compareWithApplied(
  client: Pick<pg.ClientBase, 'query'>,
  migrations: readonly Migration[],
): Promise<SchemaState> {
  const applied = await readApplied(client);
  for (const migration of migrations) requireSameText(migration, applied.get(migration.version));
  const ours = migrations.length;
  const theirs = Math.max(0, ...applied.keys());
  if (theirs === ours) return 'current';
  if (theirs < ours) return 'older';

  const needed = Math.max(
    ...[...applied.values()].filter((row) => row.version > ours).map((row) => row.compatible_with),
  );
  if (needed <= ours) return 'newer-compatible';
  throw new SchemaError(
    `the schema is at level ${theirs} and needs a server that knows at least level ${needed}; ` +
      `this one knows ${ours}: upgrade Drover`,
  );
}

async function readApplied(client: Pick<pg.ClientBase, 'query'>): Promise<Map<number, AppliedMigration>> {
  const { rows: found } = await client.query<{ present: boolean }>(
    `select to_regclass('drover.migration') is not null as present`,
  );
  if (!found[0]?.present) return new Map();
  const { rows } = await client.query<AppliedMigration>(
    `select version, name, checksum, compatible_with from drover.migration order by version`,
  );
  return new Map(rows.map((row) => [row.version, row]));
}

function requireSameText(migration: Migration, applied: AppliedMigration | undefined): void {
  if (!applied || applied.checksum === migration.checksum) return;
  throw new SchemaError(
    `migration ${migration.name} was changed after it had been applied here (as ${applied.name}): ` +
      'a migration is never edited, add a new one',
  );
}

/** True if this call applied it, false if it was there. */
async function applyOnce(client: pg.Client, migration: Migration): Promise<boolean> {
  await client.query('begin');
  try {
    // A role or pooler may bring its own limit, which must not end a long migration in its middle.
    await client.query('set local statement_timeout = 0');
    // Serialises all migrating servers; given back by the commit or by the death of the connection.
    await client.query('select pg_advisory_xact_lock($1)', [LOCK_KEY]);
    await ensureMigrationTable(client);
    const { rows } = await client.query<AppliedMigration>(
      'select version, name, checksum, compatible_with from drover.migration where version = $1',
      [migration.version],
    );
    requireSameText(migration, rows[0]);
    if (rows.length === 0) await apply(client, migration);
    await client.query('commit');
    return rows.length === 0;
  } catch (error) {
    // The first error is the one to tell; a rollback fails only when the connection is gone as well.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

async function ensureMigrationTable(client: pg.Client): Promise<void> {
  await client.query('create schema if not exists drover');
  await client.query(`
    create table if not exists drover.migration (
      version int primary key,
      name text not null,
      checksum text not null,
      compatible_with int not null,
      applied_at timestamptz not null default now()
    )`);
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  await client.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
  try {
    await client.query(migration.sql);
  } catch (error) {
    throw new SchemaError(`migration ${migration.name} failed${placeOf(error, migration.sql)}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  await client.query(
    'insert into drover.migration (version, name, checksum, compatible_with) values ($1, $2, $3, $4)',
    [migration.version, migration.name, migration.checksum, migration.compatibleWith],
  );
}

function placeOf(error: unknown, sql: string): string {
  const position = error instanceof pg.DatabaseError ? Number(error.position) : Number.NaN;
  return Number.isNaN(position) ? '' : ` at line ${sql.slice(0, position).split('\n').length}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
