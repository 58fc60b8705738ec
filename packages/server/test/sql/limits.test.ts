/** The limits that SQL checks are those of the protocol. */
import { backoffSchema, DEFAULT_MAX_ATTEMPTS, LIMITS } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

async function definitionOf(name: string): Promise<string> {
  const { rows } = await database.pool.query('select pg_get_functiondef($1::regproc) as text', [name]);
  return rows[0].text;
}

async function limitOf(name: string): Promise<number | null> {
  return (await database.pool.query('select drover.job_limit($1) as value', [name])).rows[0].value;
}

/** How many delays a back-off may list, found by what the protocol takes. */
function backoffDelays(): number {
  let count = 1;
  while (backoffSchema.safeParse({ kind: 'list', delays: Array(count + 1).fill(1) }).success) count += 1;
  return count;
}

test('each limit that SQL knows has the value of the protocol', async () => {
  const expected: Record<string, number> = {
    ...LIMITS,
    defaultMaxAttempts: DEFAULT_MAX_ATTEMPTS,
    backoffDelays: backoffDelays(),
  };
  const names = [...(await definitionOf('drover.job_limit')).matchAll(/when '(\w+)' then/g)].map(
    ([, name]) => name as string,
  );
  expect(names.length).toBeGreaterThanOrEqual(10);
  const known = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await limitOf(name)])));
  expect(known).toEqual(Object.fromEntries(names.map((name) => [name, expected[name]])));
});

test('each limit that the functions ask for exists', async () => {
  const { rows } = await database.pool.query(
    `select p.prosrc as source from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'drover'`,
  );
  const asked = new Set(
    rows.flatMap(({ source }) => [...source.matchAll(/job_limit\('(\w+)'\)/g)].map(([, name]) => name as string)),
  );
  expect(asked.size).toBeGreaterThanOrEqual(10);
  for (const name of asked) expect([name, await limitOf(name)]).toEqual([name, expect.any(Number)]);
});

test('the default of the column is that of the protocol', async () => {
  const { rows } = await database.pool.query(
    `insert into drover.job (id, queue, type, payload) values (gen_random_uuid(), 'q', 't', '1') returning max_attempts`,
  );
  expect(rows).toEqual([{ max_attempts: DEFAULT_MAX_ATTEMPTS }]);
});
