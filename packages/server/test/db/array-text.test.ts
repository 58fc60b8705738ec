import { array, assert, asyncProperty, option, string, uuid } from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { plainArray, textArray } from '../../src/db/array-text.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** PostgreSQL's texts hold no NUL. */
const anyText = string({ unit: 'binary' }).map((text) => text.replaceAll('\u0000', ''));

test('any texts come through as they are', async () => {
  const awkward = ['', 'NULL', 'null', '{a,b}', '"', '\\', '\\"', ' spaces ', 'two\nlines', "it's", 'é', undefined];
  const read = async (texts: (string | undefined)[]) => {
    const { rows } = await database.pool.query('select $1::text[] as texts', [textArray(texts)]);
    expect(rows[0].texts).toEqual(texts.map((text) => text ?? null));
  };
  await read(awkward);
  await assert(asyncProperty(array(option(anyText, { nil: undefined })), read), { numRuns: 200 });
});

test('so do numbers and UUIDs, and gaps', async () => {
  const { rows } = await database.pool.query('select $1::float8[] as numbers, $2::uuid[] as ids', [
    plainArray([1, -2.5, 1e21, undefined]),
    plainArray(['01890a5d-ac96-774b-bcce-b302099a8057', undefined]),
  ]);
  expect(rows[0]).toEqual({
    numbers: [1, -2.5, 1e21, null],
    ids: ['01890a5d-ac96-774b-bcce-b302099a8057', null],
  });
  await assert(
    asyncProperty(array(uuid()), async (ids) => {
      const found = await database.pool.query('select $1::uuid[] as ids', [plainArray(ids)]);
      expect(found.rows[0].ids).toEqual(ids);
    }),
    { numRuns: 50 },
  );
});
