/**
 * Migrates the schema `drover` to the level of this program.
 *
 * `schema/*.sql` is the schema as it is now, by subject: an empty database gets these files, in the order of their
 * names, and is then at the present level. `migrations/NNNN_what.sql` carry older databases to it: plain SQL, forward
 * only, never edited once released. A level is the number of the latest migration; the schema before any migration is
 * level 1. A test compares the results of both ways.
 *
 * Each step runs in one transaction that first takes an advisory lock bound to that transaction, so any number of
 * servers may start at once, also behind a transaction-mode pooler: one applies the step, the others wait and then
 * find it recorded. A crash leaves no partial step.
 *
 * Old and new programs share a schema during a rolling upgrade. A migration says in its first line (`--
 * compatible-with: N`) which level a server must at least know to keep working beside it; without that line it is the
 * level before. A server that knows less refuses to start.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { chooseHost } from './choose-host.js';
import { connectProblem } from './connect-problem.js';

const SCHEMA_DIRECTORY = new URL('../../schema/', import.meta.url);
const MIGRATIONS_DIRECTORY = new URL('../../migrations/', import.meta.url);
const FIRST_LEVEL = 1;
const MIGRATION_FILE = /^(\d{4})_[a-z0-9_]+\.sql$/;
const COMPATIBLE_PATTERN = /^--\s*compatible-with:\s*(\d+)\s*$/;
/** The name under which an empty database records the schema that it was created from. */
const SCHEMA_NAME = 'schema';

const MIN_POSTGRES_VERSION = 14;
/** Any constant that no other program uses in the same database. "drover" in ASCII. */
const LOCK_KEY = '110442659079538';
const CONNECT_TIMEOUT_MS = 10_000;
/** SQLSTATE: no right to do this, and no changes in a read-only transaction. */
const NO_RIGHT = '42501';
const READ_ONLY = '25006';
/** A statement that waits longer for a table lock fails, because everything else queues behind it. */
const LOCK_TIMEOUT = '10s';

/** A step towards a level: the whole schema for an empty database, or one migration. */
export type Step = { level: number; name: string; sql: string; checksum: string; compatibleWith: number };
export type Steps = { schema: Step; migrations: readonly Step[] };
type AppliedStep = { level: number; name: string; checksum: string; compatible_with: number };

export type SchemaState = 'current' | 'older' | 'newer-compatible';

/** This program cannot work with the schema or the database. The message says what to do. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

export type MigrateOptions = {
  logger?: Pick<Logger, 'info'>;
  /** The last migration to apply. Default: all. An empty database always gets the present schema. */
  to?: number;
  /** Where the files are; for tests. */
  schemaDirectory?: URL;
  migrationsDirectory?: URL;
};
type Directories = Pick<MigrateOptions, 'schemaDirectory' | 'migrationsDirectory'>;

/** Applies the missing steps and returns them. */
export async function migrate(connectionString: string, options: MigrateOptions = {}): Promise<{ applied: string[] }> {
  const steps = await loadSteps(options);
  const client = new pg.Client({
    connectionString: await chooseHost(connectionString),
    application_name: 'drover migrate',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // Without a listener a lost connection would end the process; the query under way fails with the same error.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    throw new Error(connectProblem(error, client), { cause: error });
  }
  try {
    await requireSupportedPostgres(client);
    // A complete schema is not touched: the user may have no right to change it, or the database takes no changes.
    if (compareLevels(await readApplied(client), steps) !== 'older') return { applied: [] };
    const applied: string[] = [];
    const { to = Number.POSITIVE_INFINITY } = options;
    for (const step of [steps.schema, ...steps.migrations.filter(({ level }) => level <= to)]) {
      if (!(await applyOnce(client, step, steps))) continue;
      applied.push(step.name);
      options.logger?.info({ event: 'migration.applied', migration: step.name }, 'migration applied');
    }
    return { applied };
  } catch (error) {
    throw refusalOf(error, client) ?? error;
  } finally {
    await client.end();
  }
}

/** Compares the schema with this program. Throws if this program must not work with it. */
export async function checkSchema(
  client: Pick<pg.ClientBase, 'query'>,
  options: Directories = {},
): Promise<SchemaState> {
  await requireSupportedPostgres(client);
  return compareLevels(await readApplied(client), await loadSteps(options));
}

/** The steps of this program. */
export async function loadSteps({
  schemaDirectory = SCHEMA_DIRECTORY,
  migrationsDirectory = MIGRATIONS_DIRECTORY,
}: Directories = {}): Promise<Steps> {
  const migrations = await loadMigrations(migrationsDirectory);
  const files = await sqlFiles(schemaDirectory);
  const texts = await Promise.all(files.map((file) => readSql(schemaDirectory, file)));
  const schema: Step = {
    ...stepOf(migrations.at(-1)?.level ?? FIRST_LEVEL, SCHEMA_NAME, texts.join('\n')),
    // an older program that finds this database must support what every migration requires
    compatibleWith: Math.max(FIRST_LEVEL, ...migrations.map(({ compatibleWith }) => compatibleWith)),
  };
  return { schema, migrations };
}

async function loadMigrations(directory: URL): Promise<Step[]> {
  const migrations = await Promise.all(
    (await sqlFiles(directory)).map(async (file) => {
      const match = MIGRATION_FILE.exec(file);
      if (!match) throw new SchemaError(`migration ${file} is not named like 0002_what.sql`);
      return stepOf(Number(match[1]), file.slice(0, -'.sql'.length), await readSql(directory, file));
    }),
  );
  migrations.forEach(({ level, name }, index) => {
    const expected = FIRST_LEVEL + 1 + index;
    if (level === expected) return;
    throw new SchemaError(
      `migration ${name} should have the number ${expected}: numbers have no gaps, the schema is 1`,
    );
  });
  return migrations;
}

function stepOf(level: number, name: string, sql: string): Step {
  const declared = COMPATIBLE_PATTERN.exec(sql.slice(0, Math.max(0, sql.indexOf('\n'))));
  const checksum = createHash('sha256').update(sql).digest('hex');
  return { level, name, sql, checksum, compatibleWith: declared ? Number(declared[1]) : level - 1 };
}

/** Before the first release there are no migrations, and so no folder. */
async function sqlFiles(directory: URL): Promise<string[]> {
  try {
    return (await readdir(directory)).filter((file) => file.endsWith('.sql')).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** A checkout on Windows may have other line endings; the statements are the same. */
async function readSql(directory: URL, file: string): Promise<string> {
  return (await readFile(new URL(file, directory), 'utf8')).replaceAll('\r\n', '\n');
}

async function requireSupportedPostgres(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  const { rows } = await client.query<{ version: number; text: string }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_version') as text`,
  );
  const found = rows[0];
  if (found && found.version >= MIN_POSTGRES_VERSION * 10_000) return;
  throw new SchemaError(`Drover needs PostgreSQL ${MIN_POSTGRES_VERSION} or newer; this server is ${found?.text}`);
}

function compareLevels(applied: readonly AppliedStep[], { schema, migrations }: Steps): SchemaState {
  const ours = schema.level;
  const theirs = Math.max(0, ...applied.map(({ level }) => level));
  for (const row of applied)
    requireSameText(row, row.name === SCHEMA_NAME ? schema : migrations[row.level - FIRST_LEVEL - 1]);
  if (theirs === ours) return 'current';
  if (theirs < ours) return 'older';
  const needed = Math.max(...applied.filter(({ level }) => level > ours).map((row) => row.compatible_with));
  if (needed <= ours) return 'newer-compatible';
  throw new SchemaError(
    `the schema is at level ${theirs} and needs a server that knows at least level ${needed}; ` +
      `this one knows ${ours}: upgrade Drover`,
  );
}

async function readApplied(client: Pick<pg.ClientBase, 'query'>): Promise<AppliedStep[]> {
  const { rows } = await client.query<{ present: boolean; made_before_release: boolean }>(
    // read from the catalog tables, because to_regclass may use a snapshot from before the lock
    `select coalesce(bool_or(tablename = 'schema_level'), false) as present,
       coalesce(bool_or(tablename = 'migration'), false) as made_before_release
     from pg_tables where schemaname = 'drover'`,
  );
  if (rows[0]?.made_before_release) {
    throw new SchemaError(
      'the schema "drover" was made by a version before the first release and cannot be carried over: ' +
        'drop it (drop schema drover cascade), or, for the embedded PostgreSQL, delete its folder',
    );
  }
  if (!rows[0]?.present) return [];
  const { rows: applied } = await client.query<AppliedStep>(
    `select level, name, checksum, compatible_with from drover.schema_level order by level`,
  );
  return applied;
}

/** Checks that an applied step is unchanged. A schema of another level has another text. */
function requireSameText(applied: AppliedStep, step: Step | undefined): void {
  if (!step || applied.level !== step.level || applied.checksum === step.checksum) return;
  throw new SchemaError(
    step.name === SCHEMA_NAME
      ? `the database was made from another text of level ${step.level} of the schema, by a build between two releases: make a new one`
      : `migration ${step.name} was changed after it had been applied here (as ${applied.name}): ` +
          'a migration is never edited, add a new one',
  );
}

/** True if this call applied it, false if the database has it. */
async function applyOnce(client: pg.Client, step: Step, steps: Steps): Promise<boolean> {
  await client.query('begin');
  try {
    // A role or pooler may set its own limit, which must not interrupt a long migration.
    await client.query('set local statement_timeout = 0');
    // Serialises all migrating servers. Released by the commit or by the end of the connection.
    await client.query('select pg_advisory_xact_lock($1)', [LOCK_KEY]);
    const applied = await readApplied(client);
    compareLevels(applied, steps);
    const level = Math.max(0, ...applied.map((row) => row.level));
    const isMissing = step.name === SCHEMA_NAME ? level === 0 : level < step.level;
    if (isMissing) await apply(client, step);
    await client.query('commit');
    return isMissing;
  } catch (error) {
    // The first error is the one to report. A rollback fails only if the connection is gone.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/** What an administrator must do, if the database refuses changes of the schema. */
function refusalOf(error: unknown, { user, database }: Pick<pg.Client, 'user' | 'database'>): SchemaError | undefined {
  const cause = (error instanceof SchemaError && error.cause) || error;
  const { code } = cause as { code?: unknown };
  if (code === READ_ONLY) {
    return new SchemaError(
      `the schema of Drover is not complete, and the database "${database}" is read-only: ` +
        'expected one that takes changes; a standby gets the schema from its primary',
      { cause: error },
    );
  }
  if (code !== NO_RIGHT) return undefined;
  const message = messageOf(cause);
  const mayNotCreate = message.startsWith('permission denied for database');
  return new SchemaError(
    mayNotCreate
      ? `the user "${user}" may not create the schema of Drover in the database "${database}": ` +
          `run as an administrator: grant create on database "${database}" to "${user}"`
      : `the user "${user}" may not read or change the schema of Drover in the database "${database}" (${message}): ` +
          'use the user that has created it',
    { cause: error },
  );
}

async function ensureLevelTable(client: pg.Client): Promise<void> {
  // "if not exists" would need the right to create schemas, also where an administrator has created this one
  const { rowCount } = await client.query(`select from pg_namespace where nspname = 'drover'`);
  if (rowCount === 0) await client.query('create schema drover');
  await client.query(`
    create table if not exists drover.schema_level (
      level int primary key,
      name text not null,
      checksum text not null,
      compatible_with int not null,
      applied_at timestamptz not null default now()
    )`);
}

async function apply(client: pg.Client, { level, name, sql, checksum, compatibleWith }: Step): Promise<void> {
  await client.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
  await ensureLevelTable(client);
  try {
    await client.query(sql);
  } catch (error) {
    const what = name === SCHEMA_NAME ? 'the schema' : `migration ${name}`;
    throw new SchemaError(`${what} failed${placeOf(error, sql)}: ${messageOf(error)}`, { cause: error });
  }
  await client.query(
    'insert into drover.schema_level (level, name, checksum, compatible_with) values ($1, $2, $3, $4)',
    [level, name, checksum, compatibleWith],
  );
}

function placeOf(error: unknown, sql: string): string {
  const position = error instanceof pg.DatabaseError ? Number(error.position) : Number.NaN;
  return Number.isNaN(position) ? '' : ` at line ${sql.slice(0, position).split('\n').length}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
