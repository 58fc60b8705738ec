import { createIdGenerator, newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { findJob, findJobWithAttempts, findOutcome } from '../../src/queries/find-job.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { insertJobRows, toRow } from './job-rows.js';

const DAY_MS = 86_400_000;
let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = connectDatabase({ url: database.url, poolSize: 2 });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const idAt = (ms: number) => createIdGenerator(() => ms)();

async function shown(id: string) {
  return JSON.parse(String((await findJob(db.reads, id))?.text));
}

test('a job is found wherever it is, whatever its id says of the time', async () => {
  const now = Date.now();
  const ids = [newId(), idAt(now + DAY_MS), idAt(now - 400 * DAY_MS), idAt(0), crypto.randomUUID()];
  for (const id of ids) {
    for (const state of ['ready', 'succeeded'] as const) {
      await insertJobRows(database.pool, [toRow({ id, state, createdAt: new Date(now) })]);
      expect(await shown(id)).toMatchObject({ id, state });
      expect(await findOutcome(db.reads, id)).toMatchObject({ state });
      await database.pool.query('truncate drover.job, drover.job_history');
    }
  }
});

test('an id that no job can have is not found', async () => {
  for (const id of [newId(), 'ffffffff-ffff-7fff-bfff-ffffffffffff', '00000000-0000-0000-0000-000000000000']) {
    expect(await findJob(db.reads, id)).toBeUndefined();
    expect(await findJobWithAttempts(db.reads, id)).toBeUndefined();
    expect(await findOutcome(db.reads, id)).toBeUndefined();
  }
});

test.each(['infinity', '-infinity', '294276-01-01', '4713-01-01 BC'])(
  'a job with the time %s, which no date can hold, is shown with the nearest time',
  async (time) => {
    const id = newId();
    await insertJobRows(database.pool, [toRow({ id, state: 'ready', createdAt: new Date() })]);
    await database.pool.query('update drover.job set run_at = $2::timestamptz where id = $1', [id, time]);
    expect((await shown(id)).runAt).toBe(/^-|BC/.test(time) ? '1970-01-01T00:00:00.000Z' : '9999-12-31T23:59:59.999Z');
  },
);
