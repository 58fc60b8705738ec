import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkSchema, loadSteps, migrate } from '../../src/db/migrate.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
let folder: string;
let directories: { schemaDirectory: URL; migrationsDirectory: URL };

/** A file of the schema, or one of the migrations if its name says so. */
const pathOf = (name: string) => join(folder, /^\d{4}_/.test(name) ? 'migrations' : 'schema', name);
const write = (name: string, sql: string) => writeFile(pathOf(name), sql);
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
  directories = {
    schemaDirectory: pathToFileURL(`${folder}/schema/`),
    migrationsDirectory: pathToFileURL(`${folder}/migrations/`),
  };
  await Promise.all(['schema', 'migrations'].map((name) => mkdir(join(folder, name))));
  await write('01-first.sql', 'create table drover.first (id int);\n');
});
afterEach(async () => {
  await database.pool.query('drop schema if exists drover cascade');
  await rm(folder, { recursive: true });
});

describe('migrate', () => {
  it('gives an empty database the schema, in the order of its files, and only once', async () => {
    await write('02-second.sql', 'create table drover.second (like drover.first);\n');
    expect(await migrate(database.url, directories)).toEqual({ applied: ['schema'] });
    expect(await migrate(database.url, directories)).toEqual({ applied: [] });
    expect(await tables()).toEqual(['first', 'schema_level', 'second']);
  });

  it('carries an older database to the present level by the migrations', async () => {
    await migrate(database.url, directories);
    await write('02-second.sql', 'create table drover.second (id int);\n');
    await write('0002_second.sql', 'create table drover.second (id int);\n');
    expect(await migrate(database.url, directories)).toEqual({ applied: ['0002_second'] });
    expect(await migrate(database.url, directories)).toEqual({ applied: [] });
    expect(await tables()).toEqual(['first', 'schema_level', 'second']);
  });

  it('takes an empty database to the present level without the migrations', async () => {
    await write('0002_second.sql', 'create table drover.second (id int);\n');
    expect(await migrate(database.url, directories)).toEqual({ applied: ['schema'] });
    expect(await checkSchema(database.pool, directories)).toBe('current');
    expect(await tables()).toEqual(['first', 'schema_level']);
  });

  it('stops at the migration it is told', async () => {
    await migrate(database.url, directories);
    await write('0002_second.sql', 'create table drover.second (id int);\n');
    await write('0003_third.sql', 'create table drover.third (id int);\n');
    expect(await migrate(database.url, { ...directories, to: 2 })).toEqual({ applied: ['0002_second'] });
    expect(await tables()).toEqual(['first', 'schema_level', 'second']);
  });

  it('lets one of many servers that start at once apply each step', async () => {
    await write('01-first.sql', 'create table drover.first (id int); select pg_sleep(0.05);\n');
    const first = await Promise.all(Array.from({ length: 8 }, () => migrate(database.url, directories)));
    expect(first.flatMap(({ applied }) => applied)).toEqual(['schema']);
    await write('0002_second.sql', 'create table drover.second (id int); select pg_sleep(0.05);\n');
    const second = await Promise.all(Array.from({ length: 8 }, () => migrate(database.url, directories)));
    expect(second.flatMap(({ applied }) => applied)).toEqual(['0002_second']);
  });

  it('leaves nothing of a step that fails and names its line', async () => {
    await write('02-second.sql', 'create table drover.third (id nonsense);\n');
    await expect(migrate(database.url, directories)).rejects.toThrow('the schema failed at line 3: type "nonsense"');
    expect(await tables()).toEqual([]);
    await rm(pathOf('02-second.sql'));
    await migrate(database.url, directories);
    await write('0002_second.sql', 'create table drover.second (id int);\ncreate table drover.third (id nonsense);\n');
    await expect(migrate(database.url, directories)).rejects.toThrow(
      'migration 0002_second failed at line 2: type "nonsense" does not exist',
    );
    expect(await tables()).toEqual(['first', 'schema_level']);
  });

  it('refuses a migration that was edited after it had been applied', async () => {
    await migrate(database.url, directories);
    await write('0002_second.sql', 'create table drover.second (id int);\n');
    await migrate(database.url, directories);
    await write('0002_second.sql', 'create table drover.second (id bigint);\n');
    await expect(migrate(database.url, directories)).rejects.toThrow('0002_second was changed after');
    await expect(checkSchema(database.pool, directories)).rejects.toThrow('0002_second was changed after');
  });

  it('refuses a database that was made from another text of the present level', async () => {
    await migrate(database.url, directories);
    await write('01-first.sql', 'create table drover.first (id bigint);\n');
    await expect(migrate(database.url, directories)).rejects.toThrow('another text of level 1 of the schema');
  });

  it('refuses a database from before the first release and says what to do', async () => {
    await database.pool.query('create schema drover; create table drover.migration (version int)');
    await expect(migrate(database.url, directories)).rejects.toThrow('drop schema drover cascade');
  });

  it('takes other line ends for the same text', async () => {
    await migrate(database.url, directories);
    await write('01-first.sql', 'create table drover.first (id int);\r\n');
    expect(await migrate(database.url, directories)).toEqual({ applied: [] });
  });

  it('refuses badly named and badly numbered files', async () => {
    await write('0003_third.sql', 'select 1;\n');
    await expect(loadSteps(directories)).rejects.toThrow('0003_third should have the number 2');
    await writeFile(join(folder, 'migrations', 'more.sql'), 'select 1;\n');
    await expect(loadSteps(directories)).rejects.toThrow('more.sql is not named like');
  });
});

describe('checkSchema', () => {
  /** Migrates, then forgets the migrations, as an older program would not know them. */
  const migrateBeyondLevelOne = async (second: string, third?: string) => {
    await migrate(database.url, directories);
    await write('0002_second.sql', second);
    if (third) await write('0003_third.sql', third);
    await migrate(database.url, directories);
    await rm(pathOf('0002_second.sql'));
    if (third) await rm(pathOf('0003_third.sql'));
  };

  it('calls an empty database older and a migrated one current', async () => {
    expect(await checkSchema(database.pool, directories)).toBe('older');
    await migrate(database.url, directories);
    expect(await checkSchema(database.pool, directories)).toBe('current');
  });

  it('lets a server work beside the level that follows its own', async () => {
    await migrateBeyondLevelOne('select 1;\n');
    expect(await checkSchema(database.pool, directories)).toBe('newer-compatible');
    expect(await migrate(database.url, directories)).toEqual({ applied: [] });
  });

  it('refuses a schema that has left the server behind', async () => {
    await migrateBeyondLevelOne('select 1;\n', 'select 1;\n');
    await expect(checkSchema(database.pool, directories)).rejects.toThrow(
      'the schema is at level 3 and needs a server that knows at least level 2; this one knows 1: upgrade Drover',
    );
    await expect(migrate(database.url, directories)).rejects.toThrow('upgrade Drover');
  });

  it('believes what a migration says of older servers, also of a database that began at its level', async () => {
    await migrateBeyondLevelOne('select 1;\n', '-- compatible-with: 1\nselect 1;\n');
    expect(await checkSchema(database.pool, directories)).toBe('newer-compatible');
    await database.pool.query('drop schema drover cascade');
    await write('0002_second.sql', '-- compatible-with: 2\nselect 1;\n');
    await migrate(database.url, directories);
    await rm(pathOf('0002_second.sql'));
    await expect(checkSchema(database.pool, directories)).rejects.toThrow('upgrade Drover');
  });

  it('refuses a PostgreSQL that is too old', async () => {
    const old = { query: async () => ({ rows: [{ version: 130014, text: '13.14' }] }) };
    await expect(checkSchema(old as never)).rejects.toThrow('needs PostgreSQL 14 or newer; this server is 13.14');
  });
});

it('the schema of this program is its current level', async () => {
  const migrated = await createTestDatabase();
  expect(await checkSchema(migrated.pool)).toBe('current');
  await migrated.drop();
});

describe('without the right to create schemas', () => {
  const limited = async (given: { url: string }, user: string) => {
    const url = new URL(given.url);
    url.username = user;
    url.password = 'secret';
    return url.href;
  };
  const withRole = async (work: (user: string) => Promise<void>) => {
    const user = `limited_${Math.random().toString(36).slice(2)}`;
    const server = await createTestDatabase({ empty: true });
    await server.pool.query(`create role ${user} login password 'secret'`);
    try {
      await work(user);
    } finally {
      await server.pool.query(`drop role ${user}`);
      await server.drop();
    }
  };

  it('the owner of a complete schema needs none, also where nothing may be changed', () =>
    withRole(async (user) => {
      const given = await createTestDatabase({ empty: true });
      await given.pool.query(`create schema drover authorization ${user}`);
      const url = await limited(given, user);
      // the schema was made by an administrator, and is filled by its owner
      expect((await migrate(url)).applied).toEqual(['schema']);
      await given.pool.query(`alter database ${given.name} set default_transaction_read_only = on`);
      expect(await migrate(url)).toEqual({ applied: [] });
      await given.drop();
    }));

  it('is told what to grant, or that the database takes no changes', () =>
    withRole(async (user) => {
      const given = await createTestDatabase({ empty: true });
      const url = await limited(given, user);
      await expect(migrate(url)).rejects.toThrow(`grant create on database "${given.name}" to "${user}"`);
      await given.pool.query(`grant create on database ${given.name} to ${user}`);
      await given.pool.query(`alter database ${given.name} set default_transaction_read_only = on`);
      await expect(migrate(url)).rejects.toThrow(`the database "${given.name}" is read-only`);
      await given.drop();
    }));
});
