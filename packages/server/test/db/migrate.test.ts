import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkSchema, loadMigrations, migrate } from '../../src/db/migrate.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
let folder: string;
let directory: URL;

const write = (name: string, sql: string) => writeFile(join(folder, name), sql);
const tables = async () => {
  const { rows } = await database.pool.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'drover' order by 1`,
  );
  return rows.map(({ name }) => name);
};

beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
});
afterAll(() => database.drop());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drover-migrations-'));
  directory = pathToFileURL(`${folder}/`);
  await write('0001_first.sql', 'create table drover.first (id int);\n');
});
afterEach(async () => {
  await database.pool.query('drop schema if exists drover cascade');
  await rm(folder, { recursive: true });
});

describe('migrate', () => {
  it('applies what is missing, in order, and only once', async () => {
    expect(await migrate(database.url, { directory })).toEqual({ applied: ['0001_first'] });
    await write('0002_second.sql', 'create table drover.second (id int);\n');
    expect(await migrate(database.url, { directory })).toEqual({ applied: ['0002_second'] });
    expect(await migrate(database.url, { directory })).toEqual({ applied: [] });
    expect(await tables()).toEqual(['first', 'migration', 'second']);
  });

  it('stops at the version it is told', async () => {
    await write('0002_second.sql', 'create table drover.second (id int);\n');
    expect(await migrate(database.url, { directory, to: 1 })).toEqual({ applied: ['0001_first'] });
    expect(await tables()).toEqual(['first', 'migration']);
  });

  it('lets one of many servers that start at once apply each migration', async () => {
    await write('0002_second.sql', 'create table drover.second (id int); select pg_sleep(0.05);\n');
    const all = await Promise.all(Array.from({ length: 8 }, () => migrate(database.url, { directory })));
    expect(all.flatMap(({ applied }) => applied).sort()).toEqual(['0001_first', '0002_second']);
  });

  it('leaves nothing of a migration that fails and names its line', async () => {
    await write('0002_second.sql', 'create table drover.second (id int);\ncreate table drover.third (id nonsense);\n');
    await expect(migrate(database.url, { directory })).rejects.toThrow(
      'migration 0002_second failed at line 2: type "nonsense" does not exist',
    );
    expect(await tables()).toEqual(['first', 'migration']);
  });

  it('refuses a migration that was edited after it had been applied', async () => {
    await migrate(database.url, { directory });
    await write('0001_first.sql', 'create table drover.first (id bigint);\n');
    await expect(migrate(database.url, { directory })).rejects.toThrow('0001_first was changed after');
    await expect(checkSchema(database.pool, { directory })).rejects.toThrow('0001_first was changed after');
  });

  it('takes other line ends for the same migration', async () => {
    await migrate(database.url, { directory });
    await write('0001_first.sql', 'create table drover.first (id int);\r\n');
    expect(await migrate(database.url, { directory })).toEqual({ applied: [] });
  });

  it('refuses badly named and badly numbered files', async () => {
    await write('0003_third.sql', 'select 1;\n');
    await expect(loadMigrations(directory)).rejects.toThrow('0003_third should have the number 2');
    await write('more.sql', 'select 1;\n');
    await expect(loadMigrations(directory)).rejects.toThrow('more.sql is not named like');
  });
});

describe('checkSchema', () => {
  /** Migrates, then forgets the files after the first one, as an older program would not know them. */
  const migrateBeyondLevelOne = async (second: string, third?: string) => {
    await write('0002_second.sql', second);
    if (third) await write('0003_third.sql', third);
    await migrate(database.url, { directory });
    await rm(join(folder, '0002_second.sql'));
    if (third) await rm(join(folder, '0003_third.sql'));
  };

  it('calls an empty database older and a migrated one current', async () => {
    expect(await checkSchema(database.pool, { directory })).toBe('older');
    await migrate(database.url, { directory });
    expect(await checkSchema(database.pool, { directory })).toBe('current');
  });

  it('lets a server work beside the level that follows its own', async () => {
    await migrateBeyondLevelOne('select 1;\n');
    expect(await checkSchema(database.pool, { directory })).toBe('newer-compatible');
    expect(await migrate(database.url, { directory })).toEqual({ applied: [] });
  });

  it('refuses a schema that has left the server behind', async () => {
    await migrateBeyondLevelOne('select 1;\n', 'select 1;\n');
    await expect(checkSchema(database.pool, { directory })).rejects.toThrow(
      'the schema is at level 3 and needs a server that knows at least level 2; this one knows 1: upgrade Drover',
    );
    await expect(migrate(database.url, { directory })).rejects.toThrow('upgrade Drover');
  });

  it('believes what a migration says of older servers', async () => {
    await migrateBeyondLevelOne('select 1;\n', '-- compatible-with: 1\nselect 1;\n');
    expect(await checkSchema(database.pool, { directory })).toBe('newer-compatible');
    await database.pool.query('drop schema drover cascade');
    await migrateBeyondLevelOne('-- compatible-with: 2\nselect 1;\n');
    await expect(checkSchema(database.pool, { directory })).rejects.toThrow('upgrade Drover');
  });

  it('refuses a PostgreSQL that is too old', async () => {
    const old = { query: async () => ({ rows: [{ version: 130014, text: '13.14' }] }) };
    await expect(checkSchema(old as never)).rejects.toThrow('needs PostgreSQL 14 or newer; this server is 13.14');
  });
});

it('the migrations of this program bring a database to the current level', async () => {
  const migrated = await createTestDatabase();
  expect(await checkSchema(migrated.pool)).toBe('current');
  await migrated.drop();
});
