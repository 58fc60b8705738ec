import { newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from './database.js';
import { checkNothingRefused, GUARD_COMPLAINT, guardMoves, takeRefused, writeUnguarded } from './guard-moves.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** A job as a worker holds it after its second grant. */
async function running(): Promise<string> {
  const id = newId();
  const held = `insert into drover.job (id, queue, type, payload, state, session_id, fence, attempt)
    values ($1, 'default', 'work', '1', 'running', $2, 2, 2)`;
  await database.pool.query(held, [id, newId()]);
  return id;
}

const refusals: [string, string, RegExp][] = [
  [
    'a change to a state that no move leads to',
    `update drover.job set state = 'blocked', session_id = null`,
    /illegal/,
  ],
  ['a job that is gone and not finished', 'delete from drover.job', /illegal.*nowhere/],
  ['a fence that goes back', 'update drover.job set fence = 1, attempt = 1', /the fence/],
  ['an attempt without a grant', 'update drover.job set attempt = 3', /impossible counters/],
  ['a negative number of lost attempts', 'update drover.job set lost_attempts = -1', /impossible counters/],
];

describe('the guard of a database from the template', () => {
  test.each(refusals)('refuses %s, and counts it', async (_, statement, message) => {
    const text = `${statement} where id = $1`;
    await expect(database.pool.query(text, [await running()])).rejects.toThrow(message);
    await expect(database.pool.query(text, [await running()])).rejects.toThrow(GUARD_COMPLAINT);
    await expect(checkNothingRefused(database.pool)).rejects.toThrow('refused 2 statements');
    await expect(checkNothingRefused(database.pool)).resolves.toBeUndefined();
  });

  test('refuses a job that is new in a state in which no job begins', async () => {
    const insert = `insert into drover.job (id, queue, type, payload, state, session_id)
      values ($1, 'default', 'work', '1', 'unknown', $1)`;
    await expect(database.pool.query(insert, [newId()])).rejects.toThrow(GUARD_COMPLAINT);
    expect(await takeRefused(database.pool)).toBe(1);
  });

  test('refuses once when it is installed again', async () => {
    await guardMoves(database.pool);
    const id = await running();
    await expect(database.pool.query('delete from drover.job where id = $1', [id])).rejects.toThrow(GUARD_COMPLAINT);
    expect(await takeRefused(database.pool)).toBe(1);
  });

  test('is off for one unguarded statement and on again after it', async () => {
    const [one, other] = [await running(), await running()];
    const remove = 'delete from drover.job where id = $1';
    await writeUnguarded(database.pool, remove, [one]);
    await expect(database.pool.query(remove, [other])).rejects.toThrow(GUARD_COMPLAINT);
    expect(await takeRefused(database.pool)).toBe(1);
  });
});
