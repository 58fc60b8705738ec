/** Adding jobs by COPY, one alone, or some of an era: it must mean the same as adding them by the function. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { copyJobs, isWorthCopying } from '../../src/lifecycle/copy-jobs.js';
import { insertJobs, type JobToInsert, type RowToInsert } from '../../src/lifecycle/enqueue.js';
import { type IdRange, idRangeOf } from '../../src/lifecycle/id-range.js';
import { insertManyInEra } from '../../src/lifecycle/insert-many.js';
import { insertOne, insertOneInEra } from '../../src/lifecycle/insert-one.js';
import { createKnownLanes } from '../../src/lifecycle/known-lanes.js';
import { UnreadableJson, UnreadJson } from '../../src/lifecycle/unread-json.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

const MANY = 50;

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

function rowsOf(jobs: JobToInsert[], sessionId?: string): RowToInsert[] {
  return jobs.map((job) => ({ job, payloadText: JSON.stringify(job.payload ?? null), sessionId }));
}

function makeJobs(type: string, count = MANY): JobToInsert[] {
  return Array.from({ length: count }, (_, index) => ({ id: newId(), type, payload: { index } }));
}

function rangeOf(rows: readonly RowToInsert[]): IdRange {
  return idRangeOf(rows) as IdRange;
}

const copy = (rows: RowToInsert[]) => copyJobs(bench.db.bulk, rows, rangeOf(rows));

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
])('a job that %s is the same, copied, added alone, with others or by the function', async (_, sessionId) => {
  const rowOf = (id: string) => rowsOf([{ id, type: 'work', queue: 'mail', payload: { a: [1] } }], sessionId);
  const [copied, alone, inEra, together, byFunction] = [newId(), newId(), newId(), newId(), newId()];
  await copy(rowOf(copied));
  await insertOne(bench.db.bulk, rowOf(alone)[0] as RowToInsert, rangeOf(rowOf(alone)).historyFrom);
  const [{ era }] = (await bench.pool.query('select drover.end_era()::float8 as era')).rows;
  await insertOneInEra(bench.db.bulk, rowOf(inEra)[0] as RowToInsert, era);
  await insertManyInEra(bench.db.bulk, rowOf(together), era);
  await insertJobs(bench.db.bulk, rowOf(byFunction), { isRepeated: true });
  const shape = await shapeOf(copied);
  expect(await shapeOf(alone)).toEqual(shape);
  expect(await shapeOf(inEra)).toEqual(shape);
  expect(await shapeOf(together)).toEqual(shape);
  expect(await shapeOf(byFunction)).toEqual(shape);
  expect(shape).toMatchObject({ state: sessionId ? 'running' : 'ready', queue: 'mail', max_attempts: 10 });
});

test('a job that exists, or has finished, is not added alone', async () => {
  const [row, other] = rowsOf(makeJobs('alone', 2)) as [RowToInsert, RowToInsert];
  const add = () => insertOne(bench.db.bulk, row, rangeOf([row]).historyFrom);
  await insertJobs(bench.db.bulk, [other]); // which notes the lane
  await add();
  await expect(add()).rejects.toMatchObject({ sqlState: '23505' });
  expect(await bench.claim(2, { types: ['alone'] })).toHaveLength(2);
  await completeJobs(bench.db.control, SERVER_ID, [{ id: row.job.id, fence: 1, runMs: 1, result: undefined }]);
  await expect(add()).rejects.toMatchObject({ sqlState: '23505', message: expect.stringContaining('finished before') });
  expect((await bench.row(row.job.id)).state).toBe('succeeded');
});

test('a job alone that waits for the finish of its first copy does not bring it back', async () => {
  const lanes = createKnownLanes();
  const [row] = rowsOf(makeJobs('finishing-alone', 1)) as [RowToInsert];
  const { id } = row.job;
  expect(await insertJobs(bench.db.bulk, [row], { lanes })).toEqual(new Set());
  expect(lanes.has('default', 'finishing-alone')).toBe(true);
  await bench.claim(1, { types: ['finishing-alone'] });
  const commit = await bench.finishWithoutCommit(id);
  const repeated = insertJobs(bench.db.bulk, [row], { lanes });
  await bench.untilSomeoneWaits();
  await commit();
  expect(await repeated).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
});

test.each([
  ['a day before now', '-23 hours'],
  ['most of a day ahead, by a clock that has gone back', '20 hours'],
])('a job that has finished %s is not added alone again', async (_, offset) => {
  const lanes = createKnownLanes();
  const [row] = rowsOf(makeJobs('long-done', 1)) as [RowToInsert];
  await insertJobs(bench.db.bulk, [row], { lanes });
  await bench.claim(1, { types: ['long-done'] });
  const commit = await bench.finishWithoutCommit(row.job.id);
  await commit();
  await bench.pool.query('update drover.job_history set finished_at = now() + $2::interval where id = $1', [
    row.job.id,
    offset,
  ]);
  expect(await insertJobs(bench.db.bulk, [row], { lanes })).toEqual(new Set([row.job.id]));
});

test('a job alone notes its lane, and is found in it by a claim', async () => {
  const lanes = createKnownLanes();
  for (let round = 0; round < 3; round++) {
    await insertJobs(bench.db.bulk, rowsOf(makeJobs('first-of-its-lane', 1)), { lanes });
  }
  const { rows } = await bench.pool.query(`select queue from drover.lane where type = 'first-of-its-lane'`);
  expect(rows).toEqual([{ queue: 'default' }]);
  expect(await bench.claim(5, { types: ['first-of-its-lane'] })).toHaveLength(3);
});

test('a job alone with a payload that is no JSON is not added', async () => {
  const lanes = createKnownLanes();
  await insertJobs(bench.db.bulk, rowsOf(makeJobs('unread', 1)), { lanes });
  const payload = new UnreadJson('1,2');
  const row = { job: { id: newId(), type: 'unread', payload }, payloadText: payload.text };
  await expect(insertJobs(bench.db.bulk, [row], { lanes })).rejects.toThrow(UnreadableJson);
  expect(await bench.claim(5, { types: ['unread'] })).toHaveLength(1);
});

/** Adds jobs in the present era. */
async function addInEra(rows: RowToInsert[]): Promise<void> {
  const [{ era }] = (await bench.pool.query('select last_value::float8 as era from drover.era')).rows;
  await insertManyInEra(bench.db.bulk, rows, era);
}

test.each([
  ['copied', 'some-copied', (rows: RowToInsert[]) => insertJobs(bench.db.bulk, rows)],
  ['of an era', 'some-of-an-era', addInEra],
])('of one batch, %s, some are given to workers and others wait', async (_, type, add) => {
  const sessionId = newId();
  const rows = rowsOf(makeJobs(type)).map((row, index) => (index % 2 === 0 ? { ...row, sessionId } : row));
  await add(rows);
  const { rows: states } = await bench.pool.query(
    'select state, session_id, queue, count(*)::int from drover.job where type = $1 group by 1, 2, 3 order by 1',
    [type],
  );
  expect(states).toEqual([
    { state: 'ready', session_id: null, queue: 'default', count: MANY / 2 },
    { state: 'running', session_id: sessionId, queue: 'default', count: MANY / 2 },
  ]);
});

test.each([
  ['copied', 'odd-copied', copy],
  ['of an era', 'odd-of-an-era', addInEra],
])('payloads of jobs, %s, arrive as they were, whatever they hold', async (_, type, add) => {
  const payloads = ['a\tb\nc\r\\d', '\\.', '\\N', 'nul \u0000', 'half \ud800', '"\u2028é🐑', { 'k\\': null }, null];
  const jobs = makeJobs(type).map((job, index) => ({ ...job, payload: payloads[index % payloads.length] }));
  await add(rowsOf(jobs));
  const { rows } = await bench.pool.query(
    'select id, payload::text as text from drover.job where type = $1 order by order_key',
    [type],
  );
  expect(rows).toEqual(jobs.map(({ id, payload }) => ({ id, text: JSON.stringify(payload) })));
});

test('copied jobs are claimed in the order of the batch, from lanes that did not exist', async () => {
  const jobs = makeJobs('fresh').map((job, index) => ({ ...job, queue: `copied-${index % 3}` }));
  await insertJobs(bench.db.bulk, rowsOf(jobs));
  const lanes = await bench.pool.query(`select queue from drover.lane where type = 'fresh' order by queue`);
  expect(lanes.rows.map(({ queue }) => queue)).toEqual(['copied-0', 'copied-1', 'copied-2']);
  const claimed = await bench.claim(MANY, { types: ['fresh'], queues: ['copied-0'] });
  const expected = jobs.filter(({ queue }) => queue === 'copied-0').map(({ id }) => id);
  expect(claimed.map(({ id }) => id)).toEqual(expected);
});

test('a batch with a job that exists adds the others, once', async () => {
  const jobs = makeJobs('again');
  await insertJobs(bench.db.bulk, rowsOf(jobs.slice(0, 1)));
  await expect(copy(rowsOf(jobs))).rejects.toMatchObject({ sqlState: '23505' });
  expect(await insertJobs(bench.db.bulk, rowsOf(jobs))).toEqual(new Set([jobs[0]?.id]));
  expect(await bench.claim(2 * MANY, { types: ['again'] })).toHaveLength(MANY);
});

test('a batch with a job that has finished does not bring it back', async () => {
  const jobs = makeJobs('done');
  const { id } = jobs[7] as JobToInsert;
  await insertJobs(bench.db.bulk, rowsOf([jobs[7] as JobToInsert]));
  const [claimed] = await bench.claim(1, { types: ['done'] });
  await completeJobs(bench.db.control, SERVER_ID, [{ id, fence: claimed?.fence ?? 0, runMs: 1, result: undefined }]);
  await expect(copy(rowsOf(jobs))).rejects.toMatchObject({ sqlState: '23505' });
  expect(await insertJobs(bench.db.bulk, rowsOf(jobs))).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
  expect(await bench.claim(2 * MANY, { types: ['done'] })).toHaveLength(MANY - 1);
});

test('a copy that waits for the finish of the first one does not bring it back', async () => {
  const jobs = makeJobs('finishing');
  const { id } = jobs[0] as JobToInsert;
  await insertJobs(bench.db.bulk, rowsOf([jobs[0] as JobToInsert]));
  await bench.claim(1, { types: ['finishing'] });
  const commit = await bench.finishWithoutCommit(id);
  const repeated = insertJobs(bench.db.bulk, rowsOf(jobs));
  await bench.untilSomeoneWaits();
  await commit();
  expect(await repeated).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
});

test('a batch with a payload that PostgreSQL refuses adds nothing, and the connection goes on', async () => {
  const rows = rowsOf(makeJobs('bad'));
  rows[20] = { ...(rows[20] as RowToInsert), payloadText: 'not json' };
  for (let round = 0; round < 8; round++) {
    await expect(insertJobs(bench.db.bulk, rows)).rejects.toMatchObject({ kind: 'refused' });
  }
  expect(await bench.claim(MANY, { types: ['bad'] })).toEqual([]);
  expect(await insertJobs(bench.db.bulk, rowsOf(makeJobs('good')))).toEqual(new Set());
});

test('a batch whose connection ends in the middle of it is not half added', async () => {
  const jobs = makeJobs('cut');
  const holder = await bench.pool.connect();
  await holder.query('begin');
  const last = jobs.at(-1) as JobToInsert;
  await holder.query(`insert into drover.job (id, queue, type, payload) values ($1, 'default', 'cut', '1')`, [last.id]);
  const added = insertJobs(bench.db.bulk, rowsOf(jobs));
  const failed = expect(added).rejects.toMatchObject({ kind: 'unknown' });
  await bench.untilSomeoneWaits();
  await bench.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where query like 'copy drover.job%' and wait_event = 'transactionid' and datname = current_database()`,
  );
  await failed;
  await holder.query('rollback');
  holder.release();
  expect(await insertJobs(bench.db.bulk, rowsOf(jobs), { isRepeated: true })).toEqual(new Set());
  expect(await bench.claim(2 * MANY, { types: ['cut'] })).toHaveLength(MANY);
});

test('many plain jobs are copied, one with options among them ends that', async () => {
  let copies = 0;
  const counting: Runner = {
    ...bench.db.bulk,
    copyIn: (text, data) => {
      copies += 1;
      return bench.db.bulk.copyIn(text, data);
    },
  };
  await insertJobs(counting, rowsOf(makeJobs('counted')));
  expect(copies).toBe(1);
  await insertJobs(counting, rowsOf([...makeJobs('counted'), { id: newId(), type: 'counted', priority: 1 }]));
  await insertJobs(counting, rowsOf(makeJobs('counted')), { isRepeated: true });
  expect(copies).toBe(1);
});

test('few jobs, and ids from far apart, are not copied', () => {
  const range = (...ms: number[]) => {
    const id = (at: number) =>
      `${at
        .toString(16)
        .padStart(12, '0')
        .replace(/(.{8})/, '$1-')}-7000-8000-000000000000`;
    return idRangeOf(ms.map((each) => ({ job: { id: id(each) } }))) as IdRange;
  };
  const now = Date.now();
  expect(isWorthCopying(1000, range(now, now + 20))).toBe(true);
  expect(isWorthCopying(1000, range(now + 60_000, now))).toBe(false);
  expect(isWorthCopying(2, range(now, now))).toBe(false);
});
