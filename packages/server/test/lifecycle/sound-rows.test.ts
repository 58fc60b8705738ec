/** Rows that the database itself refuses, from any writer. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { takeRefused, writeUnguarded } from '../support/guard-moves.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const insertOf = (columns: Record<string, unknown>): [text: string, values: unknown[]] => {
  const row = { id: newId(), queue: 'default', type: 'a', payload: '1', ...columns };
  const places = Object.keys(row).map((_, index) => `$${index + 1}`);
  return [`insert into drover.job (${Object.keys(row).join(', ')}) values (${places.join(', ')})`, Object.values(row)];
};
/** The constraints of the table are what is tested here, so the guard is off. */
const insert = (columns: Record<string, unknown>) => writeUnguarded(database.pool, ...insertOf(columns));
const held = { session_id: newId(), fence: 1, attempt: 1 };

test.each([
  ['waits', {}],
  ['waits for its time', { state: 'scheduled' }],
  ['waits for others', { state: 'blocked' }],
  ['runs', { state: 'running', ...held }],
  ['was lost and is held', { state: 'unknown', ...held }],
  ['has been handed back', { fence: 3, attempt: 1 }],
])('a job that %s is taken', async (_, columns) => {
  await insert(columns);
});

test.each([
  ['has succeeded', { state: 'succeeded' }],
  ['has failed', { state: 'failed' }],
  ['was cancelled', { state: 'cancelled' }],
  ['has succeeded, with a holder', { state: 'succeeded', ...held }],
  ['runs nowhere', { state: 'running' }],
  ['was lost without a holder', { state: 'unknown' }],
  ['waits, with a holder', held],
  ['waits for its time, with a holder', { state: 'scheduled', ...held }],
  ['waits for others, with a holder', { state: 'blocked', ...held }],
])('an unfinished job that %s is refused', async (_, columns) => {
  await expect(insert(columns)).rejects.toMatchObject({ code: '23514', constraint: 'job_is_sound' });
});

test('the check has been made for the rows from before it, too', async () => {
  const { rows } = await database.pool.query(
    `select conname, convalidated from pg_constraint where conrelid = 'drover.job'::regclass and contype = 'c'`,
  );
  expect(rows).toEqual([{ conname: 'job_is_sound', convalidated: true }]);
});

describe('in the databases of tests', () => {
  test.each([
    ['has an attempt without a grant', { attempt: 1 }],
    ['has an attempt below the first', { attempt: -1 }],
    ['may have no attempt', { max_attempts: 0 }],
    ['was lost less than never', { lost_attempts: -1 }],
  ])('a job that %s is refused as well', async (_, columns) => {
    await expect(database.pool.query(...insertOf(columns))).rejects.toThrow(/impossible counters of job/);
    expect(await takeRefused(database.pool)).toBe(1);
  });
});
