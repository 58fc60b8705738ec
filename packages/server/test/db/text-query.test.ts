/** The statements of the hot path: what a connection is worth after each way in which one can end. */
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { type Statement, sql } from '../../src/db/statement.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
let db: Database;
beforeEach(async () => {
  database = await createTestDatabase();
  db = connectDatabase({ url: `${database.url}?query_timeout=60000`, poolSize: 1, deadlineMs: 1000 });
});
afterEach(async () => {
  await db.close();
  await database.drop();
});

const echo = sql('echo')`select $1::text, $2::text, null from generate_series(1, $3)`;
const number = sql('number')`select $1::int`;
const wrong = sql('wrong')`select no_such_column`;
const divide = sql('divide')`select 1 / (3 - n) from generate_series(1, $1::int) n`;
const sleep = sql('sleep')`select pg_sleep($1::float8)`;
const whoAmI = sql('who_am_i')`select pg_backend_pid()`;

const run = (statement: Statement, ...values: (string | undefined)[]) => db.bulk.runTexts(statement, values);

test('rows are texts, in their order, also when the statement is repeated', async () => {
  expect(await run(echo, 'a', undefined, '2')).toEqual([
    ['a', null, null],
    ['a', null, null],
  ]);
  expect(await run(echo, 'ü "\\', '', '1')).toEqual([['ü "\\', '', null]]);
  expect(await run(echo, 'a', 'b', '0')).toEqual([]);
});

test('any text arrives as it is, and half a character as the sign for that', async () => {
  const texts = fc.sample(fc.string({ unit: 'binary', maxLength: 50 }), 500).map((text) => text.replaceAll('\0', ''));
  for (const text of [...texts, 'é'.repeat(100_000), '\r\n\t', '🐑']) {
    const arrived = Buffer.from(text).toString();
    expect(await run(echo, text, text, '1')).toEqual([[arrived, arrived, null]]);
  }
});

test.each([
  ['cannot be parsed', wrong, [], '42703'],
  ['has a value that does not fit', number, ['x'], '22P02'],
  ['fails after some rows', divide, ['5'], '22012'],
])('a statement that %s is refused, and the connection still works', async (_, statement, values, sqlState) => {
  const [[pid]] = (await run(whoAmI)) as [[string]];
  for (let round = 0; round < 3; round++) {
    await expect(run(statement, ...values)).rejects.toMatchObject({ kind: 'refused', sqlState });
  }
  expect(await run(number, '5')).toEqual([['5']]);
  expect(await run(whoAmI)).toEqual([[pid]]);
});

test('good and bad ones at once get their own answers', async () => {
  const answers = await Promise.allSettled([
    run(number, '1'),
    run(number, 'x'),
    run(echo, 'a', 'b', '1'),
    run(wrong),
    run(number, '2'),
  ]);
  expect(answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : 'refused'))).toEqual([
    [['1']],
    'refused',
    [['a', 'b', null]],
    'refused',
    [['2']],
  ]);
});

test('a statement past its deadline, or whose backend is terminated, has an unknown outcome, and the next connection works', async () => {
  await expect(run(sleep, '10')).rejects.toMatchObject({ kind: 'unknown', message: 'no answer within 1 s' });
  expect(await run(number, '1')).toEqual([['1']]);
  const ended = run(sleep, '10').catch((error: Error) => error);
  await expect
    .poll(async () => {
      const { rows } = await database.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where query like 'select pg_sleep($1%' and state = 'active'`,
      );
      return rows.length;
    })
    .toBeGreaterThan(0);
  expect(await ended).toMatchObject({ name: 'DatabaseError', kind: 'unknown' });
  expect(await run(number, '2')).toEqual([['2']]);
});

test('two statements of one name are refused', async () => {
  await run(number, '5');
  await expect(run(sql('number')`select 7 + $1::int`, '5')).rejects.toThrow('must be unique');
  expect(await run(number, '5')).toEqual([['5']]);
});

test('transactions are read committed, whatever the database has for a default', async () => {
  await database.pool.query(
    `alter database ${new URL(database.url).pathname.slice(1)} set default_transaction_isolation = 'serializable'`,
  );
  const other = connectDatabase({ url: database.url, poolSize: 1 });
  try {
    const shown = sql('isolation')`select current_setting('transaction_isolation')`;
    for (const pool of [other.control, other.bulk])
      expect(await pool.runTexts(shown, [])).toEqual([['read committed']]);
  } finally {
    await other.close();
  }
});
