/** Migration 0018 makes the table of unfinished jobs anew: nothing but the order of its columns may be different afterwards. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { migrate } from '../../src/db/migrate.js';
import { claimJobs } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { insertJobs } from '../../src/lifecycle/enqueue.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  await migrate(database.url, { to: 17 });
  db = connectDatabase({ url: database.url, poolSize: 1 });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const lines = async (text: string) => (await database.pool.query({ text, rowMode: 'array' })).rows.map(String);

/** Each with what it asks of a row; the table's own settings come last. */
async function definition() {
  return {
    columns: await lines(`
      select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid)
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = 'drover.job'::regclass and a.attnum > 0 and not a.attisdropped order by 1`),
    indexes: await lines(
      `select indexdef from pg_indexes where schemaname = 'drover' and tablename = 'job' order by 1`,
    ),
    constraints: await lines(
      `select conname, pg_get_constraintdef(oid), convalidated from pg_constraint
        where conrelid = 'drover.job'::regclass and contype <> 'n' order by 1`,
    ),
    settings: await lines(`select unnest(reloptions) from pg_class where oid = 'drover.job'::regclass order by 1`),
    view: await lines(`select pg_get_viewdef('drover.jobs'::regclass)`),
  };
}

const jobs = async () =>
  (await database.pool.query('select *, payload::text as payload_text from drover.job order by id')).rows;

async function runOne(): Promise<void> {
  const job = { id: randomUUID(), type: 'work', payload: null };
  await insertJobs(db.control, [{ job, payloadText: 'null' }]);
  const slots = [randomUUID()];
  const claimed = await claimJobs(db.control, [{ types: ['work'], queues: null, slots, ignoresPause: false }]);
  expect(claimed.map(({ id }) => id)).toEqual([job.id]);
  const completions = claimed.map(({ id, fence }) => ({ id, fence, runMs: 1, result: undefined }));
  expect(await completeJobs(db.control, randomUUID(), completions)).toBeNull();
}

it('keeps every job, and what is asked of it, and a server with prepared statements goes on', async () => {
  await runOne();
  await database.pool.query('grant select on drover.jobs to pg_read_all_stats');
  await database.pool.query(`
    insert into drover.job (id, queue, type, payload, state, session_id, started_at, fence, attempt, max_attempts, lost_attempts,
      priority, run_at, created_at, expires_at, cancel_requested_at, order_key, timeout_ms, retention_ms, hold_if_lost, tags, backoff,
      progress, attempts, occurrence, inherited, parent_id)
    values
      (gen_random_uuid(), 'held', 'kept', '{"a" : "\\u0000"}', 'running', gen_random_uuid(), '2026-01-02', 4, 3, 7, 1,
        -5, '2026-01-01', '2025-12-31', '2030-01-01', '2026-02-01', 77, 1000, 2000, true, '{x,y}', '{"kind":"fixed"}',
        '{"done":1}', array['{"attempt":1}', '{"attempt":2}']::json[], '{"at":1}', true, gen_random_uuid()),
      (gen_random_uuid(), 'held', 'kept', '1', 'unknown', gen_random_uuid(), now(), 1, 1, 10, 0,
        0, now(), now(), null, null, 78, null, null, true, null, null, null, null, null, false, null),
      (gen_random_uuid(), 'default', 'kept', '[]', 'scheduled', null, null, 0, 0, 10, 0,
        3, '2031-01-01', now(), null, null, 79, null, null, false, null, null, null, null, null, false, null)`);
  await database.pool.query(
    `insert into drover.job (id, queue, type, payload) values (gen_random_uuid(), 'default', 'kept', '{}')`,
  );
  const before = { jobs: await jobs(), definition: await definition() };
  expect(before.jobs).toHaveLength(4);

  await migrate(database.url, { to: 18 });

  const withoutRoom = (indexes: string[]) => indexes.map((text) => text.replace(" WITH (fillfactor='45')", ''));
  const after = await definition();
  expect(await jobs()).toEqual(before.jobs);
  expect({
    ...after,
    indexes: withoutRoom(after.indexes),
    constraints: withoutRoom(after.constraints),
  }).toEqual(before.definition);
  expect(after.indexes.filter((text) => text.includes('fillfactor')).length).toBe(1);
  // what the indexes name comes first
  const first = `select attname from pg_attribute where attrelid = 'drover.job'::regclass and attnum between 1 and 10 order by attnum`;
  expect(await lines(first)).toEqual([
    ...['id', 'order_key', 'run_at', 'state', 'priority', 'queue', 'type'],
    ...['session_id', 'cancel_requested_at', 'expires_at'],
  ]);
  expect(await lines(`select has_table_privilege('pg_read_all_stats', 'drover.jobs', 'select')`)).toEqual(['true']);
  await runOne();
});
