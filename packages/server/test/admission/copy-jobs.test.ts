/** Jobs that are inserted by COPY: it must mean the same as the function. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { canCopy, copyJobs } from '../../src/admission/copy-jobs.js';
import { insertJobs } from '../../src/admission/insert-jobs.js';
import type { Runner } from '../../src/db/database.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { type IdRange, idRangeOf } from '../../src/new-jobs/id-range.js';
import type { RowToInsert } from '../../src/new-jobs/job-to-insert.js';
import { createLifecycleBench, type JobFields, type LifecycleBench, rowOf, SERVER_ID } from '../support/lifecycle.js';

const MANY = 50;

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

function makeRows(type: string, more: JobFields = {}, count = MANY): RowToInsert[] {
  return Array.from({ length: count }, (_, index) => rowOf({ id: newId(), type, payload: { index }, ...more }));
}

const idsOf = (rows: RowToInsert[]) => rows.map(({ job }) => job.id);
const rangeOf = (rows: readonly RowToInsert[]) => idRangeOf(rows.map(({ job }) => job)) as IdRange;
const copy = (rows: RowToInsert[]) => copyJobs(bench.db.bulk, rows, rangeOf(rows));
const insert = (rows: RowToInsert[], options = {}) => insertJobs(bench.db.bulk, rows, options);

/** What differs between any two jobs, left out. */
async function shapeOf(id: string): Promise<Record<string, unknown>> {
  const row = await bench.row(id);
  // a job is ready, and started, when it is made
  const times = { runAt: row.run_at === row.created_at, startedAt: row.started_at === row.created_at };
  return { ...row, id: '', order_key: 0, created_at: '', run_at: '', started_at: '', times };
}

test.each([
  ['waits', undefined],
  ['is given to a worker', newId()],
])('a job that %s is the same, copied or by the function', async (_, sessionId) => {
  const row = () => rowOf({ id: newId(), queue: 'mail', payload: { a: [1] } }, sessionId);
  const [copied, byFunction] = [row(), row()];
  await copy([copied]);
  await insert([byFunction]);
  const shape = await shapeOf(copied.job.id);
  expect(await shapeOf(byFunction.job.id)).toEqual(shape);
  expect(shape).toMatchObject({ state: sessionId ? 'running' : 'ready', queue: 'mail', max_attempts: 10 });
});

test('of one batch, some are given to workers and others wait', async () => {
  const sessionId = newId();
  const rows = makeRows('some-copied').map((row, index) => (index % 2 === 0 ? { ...row, sessionId } : row));
  await insert(rows);
  const { rows: states } = await bench.pool.query(
    `select state, session_id, queue, count(*)::int from drover.job where type = 'some-copied' group by 1, 2, 3 order by 1`,
  );
  expect(states).toEqual([
    { state: 'ready', session_id: null, queue: 'default', count: MANY / 2 },
    { state: 'running', session_id: sessionId, queue: 'default', count: MANY / 2 },
  ]);
});

test('payloads arrive as they were, whatever they hold', async () => {
  const values = ['a\tb\nc\r\\d', '\\.', '\\N', 'nul \u0000', 'half \ud800', '"\u2028é🐑', { 'k\\': null }, null];
  const texts = [...values.map((value) => JSON.stringify(value)), '[1,\t2]\r', '{"a": 1e400}'];
  const rows = makeRows('odd-copied').map(({ job }, index) => ({
    job: { ...job, payload: texts[index % texts.length] as string },
  }));
  await copy(rows);
  const { rows: stored } = await bench.pool.query(
    `select id, payload::text as text from drover.job where type = 'odd-copied' order by order_key`,
  );
  expect(stored).toEqual(rows.map(({ job }) => ({ id: job.id, text: job.payload })));
});

test('copied jobs are claimed in the order of the batch, from lanes that did not exist', async () => {
  const rows = makeRows('fresh').map(({ job }, index) => ({ job: { ...job, queue: `copied-${index % 3}` } }));
  await insert(rows);
  const lanes = await bench.pool.query(`select queue from drover.lane where type = 'fresh' order by queue`);
  expect(lanes.rows.map(({ queue }) => queue)).toEqual(['copied-0', 'copied-1', 'copied-2']);
  const claimed = await bench.claim(MANY, { types: ['fresh'], queues: ['copied-0'] });
  const expected = rows.filter(({ job }) => job.queue === 'copied-0').map(({ job }) => job.id);
  expect(claimed.map(({ id }) => id)).toEqual(expected);
});

test('a batch with a job that exists adds the others, once', async () => {
  const rows = makeRows('again');
  await insert(rows.slice(0, 1));
  await expect(copy(rows)).rejects.toMatchObject({ sqlState: '23505' });
  expect(await insert(rows)).toEqual(new Set(idsOf(rows.slice(0, 1))));
  expect(await insert(rows)).toEqual(new Set(idsOf(rows)));
  expect(await bench.claim(2 * MANY, { types: ['again'] })).toHaveLength(MANY);
});

test('a batch with a job that has finished does not bring it back', async () => {
  const rows = makeRows('done');
  const { id } = (rows[7] as RowToInsert).job;
  await insert([rows[7] as RowToInsert]);
  const [claimed] = await bench.claim(1, { types: ['done'] });
  await completeJobs(bench.db.control, SERVER_ID, [{ id, fence: claimed?.fence ?? 0, runMs: 1, result: undefined }]);
  await expect(copy(rows)).rejects.toMatchObject({
    sqlState: '23505',
    message: expect.stringContaining('finished before'),
  });
  expect(await insert(rows)).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
  expect(await bench.claim(2 * MANY, { types: ['done'] })).toHaveLength(MANY - 1);
});

test('a copy that waits for the finish of the first one does not bring it back', async () => {
  const rows = makeRows('finishing');
  const { id } = (rows[0] as RowToInsert).job;
  await insert([rows[0] as RowToInsert]);
  await bench.claim(1, { types: ['finishing'] });
  const commit = await bench.finishWithoutCommit(id);
  const repeated = insert(rows);
  await bench.untilSomeoneWaits();
  await commit();
  expect(await repeated).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
});

test('a batch with a payload that PostgreSQL refuses adds nothing, and the connection serves the next one', async () => {
  const rows = makeRows('bad');
  rows[20] = { job: { ...(rows[20] as RowToInsert).job, payload: 'not json' } };
  for (let round = 0; round < 8; round++) {
    await expect(insert(rows)).rejects.toMatchObject({ kind: 'refused' });
  }
  expect(await bench.claim(MANY, { types: ['bad'] })).toEqual([]);
  expect(await insert(makeRows('good'))).toEqual(new Set());
});

test('a batch whose connection ends in the middle of it is not half added', async () => {
  const rows = makeRows('cut');
  const holder = await bench.pool.connect();
  await holder.query('begin');
  const last = rows.at(-1) as RowToInsert;
  await holder.query(`insert into drover.job (id, queue, type, payload) values ($1, 'default', 'cut', '1')`, [
    last.job.id,
  ]);
  const added = insert(rows);
  const failed = expect(added).rejects.toMatchObject({ kind: 'unknown' });
  await bench.untilSomeoneWaits();
  await bench.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where query like 'copy drover.job%' and wait_event = 'transactionid' and datname = current_database()`,
  );
  await failed;
  await holder.query('rollback');
  holder.release();
  expect(await insert(rows, { mayExist: true })).toEqual(new Set());
  expect(await bench.claim(2 * MANY, { types: ['cut'] })).toHaveLength(MANY);
});

test('many plain jobs are copied; one with options among them, or an earlier try, prevents that', async () => {
  let copies = 0;
  const counting: Runner = {
    ...bench.db.bulk,
    copyIn: (text, data) => {
      copies += 1;
      return bench.db.bulk.copyIn(text, data);
    },
  };
  await insertJobs(counting, makeRows('counted'));
  expect(copies).toBe(1);
  await insertJobs(counting, [...makeRows('counted'), rowOf({ type: 'counted', priority: 1 })]);
  await insertJobs(counting, makeRows('counted'), { mayExist: true });
  expect(copies).toBe(1);
});

test('few jobs, ids from far apart and ids without a time are not copied', () => {
  const idAt = (ms: number) =>
    `${ms
      .toString(16)
      .padStart(12, '0')
      .replace(/(.{8})/, '$1-')}-7000-8000-000000000000`;
  const isCopied = (ids: string[], more: JobFields = {}) => {
    const rows = ids.map((id) => rowOf({ id, ...more }));
    return canCopy(rows, idRangeOf(rows.map(({ job }) => job)));
  };
  const now = Date.now();
  const many = Array.from({ length: 1000 }, (_, index) => idAt(now + (index % 100)));
  expect(isCopied(many)).toBe(true);
  expect(isCopied(many, { queue: 'mail' })).toBe(true);
  expect(isCopied(many, { priority: 0 })).toBe(false);
  expect(isCopied([...many, idAt(now - 1000)])).toBe(false);
  expect(isCopied([...many, crypto.randomUUID()])).toBe(false);
  expect(isCopied(many.slice(0, 2))).toBe(false);
});
