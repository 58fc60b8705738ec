/** The page of the SQL functions against a migrated database, and its statements as an application would run them. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { codeBlocks, named, readPage, section } from './support/page.js';

const page = readPage('docs/reference/sql.md');
const sorted = (words: Iterable<string>) => [...words].sort();
let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database?.drop());

async function names(sql: string): Promise<string[]> {
  const { rows } = await database.pool.query<{ name: string }>(sql);
  return rows.map(({ name }) => name);
}

describe('docs/reference/sql.md', () => {
  it('lists every function and no other', async () => {
    const known = await names(
      `select distinct 'drover.' || proname as name from pg_proc where pronamespace = 'drover'::regnamespace`,
    );
    expect(sorted(named(section(page, '## All functions')))).toEqual(sorted(known));
  });

  it('lists every table and view and no other', async () => {
    const known = await names(
      `select 'drover.' || relname as name from pg_class
       where relnamespace = 'drover'::regnamespace and relkind in ('r', 'p', 'v') and relname !~ '_[0-9]{8}$'`,
    );
    expect(sorted(named(section(page, '## All tables and views')))).toEqual(sorted(known));
  });

  it('shows the signatures as they are', async () => {
    const known = await names(
      `select format('drover.%s(%s) returns %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid)) as name
       from pg_proc where pronamespace = 'drover'::regnamespace and proname in ('enqueue', 'enqueue_many', 'start_run')`,
    );
    const [signatures] = codeBlocks(section(page, '## For you'));
    expect(sorted(signatures?.code.trim().split('\n') ?? [])).toEqual(sorted(known));
  });

  it('says truly that usage of the schema is all an application needs', async () => {
    const role = `drover_docs_${randomBytes(4).toString('hex')}`;
    const [, example] = codeBlocks(section(page, '## For you'));
    const [grant] = codeBlocks(section(page, '## Permissions'));
    const client = await database.pool.connect();
    try {
      await client.query(`create role ${role}`);
      await client.query(`create schema ${role} authorization ${role}`);
      await client.query((grant?.code ?? '').replace('to app', `to ${role}`));
      await client.query(`set role ${role}`);
      await client.query(`set search_path = ${role}`);
      await client.query('create table orders (id text)');
      await client.query(example?.code ?? '');
      await expect(client.query('select from drover.job')).rejects.toThrow('permission denied');
      await expect(client.query(`select drover.insert_job_rows('[]')`)).rejects.toThrow('permission denied');
      await client.query('reset role');
      const { rows } = await client.query('select type, queue, state::text as state from drover.jobs order by type');
      expect(rows).toEqual([
        { type: 'order.confirm', queue: 'default', state: 'ready' },
        { type: 'order.remind', queue: 'mail', state: 'scheduled' },
      ]);
    } finally {
      await client.query(`reset role; drop owned by ${role} cascade; drop role ${role}`);
      client.release();
    }
  });

  it('names the errors that the functions raise', async () => {
    const wrong = database.pool.query(`select drover.enqueue('not a name')`);
    await expect(wrong).rejects.toMatchObject({ code: '22023' });
    const large = database.pool.query(`select drover.enqueue('x', to_json(repeat('x', 1048576)))`);
    await expect(large).rejects.toMatchObject({ code: '54000' });
  });
});
