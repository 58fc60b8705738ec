import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { insertJobs } from '../../src/lifecycle/enqueue.js';
import { idRangeOf } from '../../src/lifecycle/id-range.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

function insert(...jobs: { id: string; type: string; payload?: unknown }[]) {
  return insertJobs(
    bench.db.bulk,
    jobs.map((job) => ({ job, payloadText: JSON.stringify(job.payload ?? null) })),
  );
}

test('a job without a time is ready, one with a delay or a later time is scheduled', async () => {
  const later = new Date(Date.now() + 60_000).toISOString();
  const past = new Date(Date.now() - 60_000).toISOString();
  const [now, delayed, timed, overdue] = await bench.add({}, { delay: 60_000 }, { runAt: later }, { runAt: past });
  expect((await bench.row(now as string)).state).toBe('ready');
  expect((await bench.row(delayed as string)).state).toBe('scheduled');
  expect((await bench.row(timed as string)).state).toBe('scheduled');
  expect((await bench.row(overdue as string)).state).toBe('ready');
});

test('every option is kept', async () => {
  const parentId = newId();
  const [id] = await bench.add({
    queue: 'mail',
    priority: 7,
    maxAttempts: 3,
    backoff: { kind: 'fixed', delay: 5, jitter: 0 },
    timeout: 1000,
    retention: 2000,
    tags: ['a', 'b c'],
    expiresAt: '2040-01-01T00:00:00.000Z',
    payload: { text: 'nul \u0000 and a half pair \ud800' },
    parentId,
  });
  const row = await bench.pool.query('select *, payload::text as text from drover.job where id = $1', [id]);
  expect(row.rows[0]).toMatchObject({
    queue: 'mail',
    priority: 7,
    max_attempts: 3,
    backoff: { kind: 'fixed', delay: 5, jitter: 0 },
    timeout_ms: '1000',
    retention_ms: '2000',
    tags: ['a', 'b c'],
    parent_id: parentId,
    text: '{"text":"nul \\u0000 and a half pair \\ud800"}',
  });
});

test('repeating an enqueue is the same job, also twice in one batch', async () => {
  const id = newId();
  const job = { id, type: 'once' };
  expect(await insert(job, job)).toEqual(new Set());
  expect(await insert(job)).toEqual(new Set([id]));
  expect(await insert({ ...job, payload: 'another' })).toEqual(new Set([id]));
  expect((await bench.row(id)).payload).toBe(null);
});

test.each([
  ['a UUIDv7', () => newId()],
  ['any other UUID', () => crypto.randomUUID()],
])('a finished job with %s is not made again', async (_, makeId) => {
  const id = makeId();
  const job = { id, type: `done-${id}` };
  await insert(job);
  const [claimed] = await bench.claim(1, { types: [job.type] });
  await completeJobs(bench.db.control, SERVER_ID, [{ id, fence: claimed?.fence ?? 0, runMs: 1, result: undefined }]);
  expect(await insert(job)).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
});

test('an enqueue that waits for the commit of the first copy’s finish does not bring it back', async () => {
  const job = await bench.running();
  const commit = await bench.finishWithoutCommit(job.id);
  const repeated = insert({ id: job.id, type: 'work' });
  await bench.untilSomeoneWaits();
  await commit();
  expect(await repeated).toEqual(new Set([job.id]));
  expect((await bench.row(job.id)).state).toBe('succeeded');
});

test('a batch with one bad row adds nothing', async () => {
  const good = newId();
  const rows = [
    { job: { id: good, type: 'work' }, payloadText: '1' },
    { job: { id: newId(), type: 'work' }, payloadText: 'not json' },
  ];
  await expect(insertJobs(bench.db.bulk, rows)).rejects.toMatchObject({ kind: 'refused' });
  await expect(bench.row(good)).rejects.toThrow('0 times');
});

test('two servers that add the same job at once make one', async () => {
  const id = newId();
  const answers = await Promise.all(Array.from({ length: 8 }, () => insert({ id, type: 'race' })));
  expect(answers.filter((duplicates) => !duplicates.has(id))).toHaveLength(1);
  expect((await bench.row(id)).state).toBe('ready');
});

test('the history is searched from a day before the hour of the oldest id, and wholly for ids without a time', () => {
  const id = '01890000-0000-7000-8000-000000000000';
  expect(new Date(0x018900000000).toISOString()).toBe('2023-06-28T03:15:47.328Z');
  const rowsOf = (...ids: string[]) => ids.map((each) => ({ job: { id: each } }));
  expect(idRangeOf(rowsOf(newId(), id))?.historyFrom).toBe('2023-06-27T03:00:00.000Z');
  expect(idRangeOf(rowsOf(id, crypto.randomUUID()))).toBeUndefined();
});
