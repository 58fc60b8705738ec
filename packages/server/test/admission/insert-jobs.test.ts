import { newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { insertJobs } from '../../src/admission/insert-jobs.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { idRangeOf } from '../../src/new-jobs/id-range.js';
import type { RowToInsert } from '../../src/new-jobs/job-to-insert.js';
import { createLifecycleBench, type JobFields, type LifecycleBench, rowOf, SERVER_ID } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

const insertRows = (rows: RowToInsert[]) => insertJobs(bench.db.bulk, rows);
const insert = (...jobs: JobFields[]) => insertRows(jobs.map((job) => rowOf(job)));

/** Claims the job of this type and completes it. */
async function run(type: string): Promise<void> {
  const claimed = await bench.claim(1, { types: [type] });
  const completions = claimed.map(({ id, fence }) => ({ id, fence, runMs: 1, result: undefined }));
  expect(await completeJobs(bench.db.control, SERVER_ID, completions)).toHaveLength(completions.length);
}

/** The payloads of a type as they are stored, in the order of the queue. */
async function payloadsOf(type: string): Promise<string[]> {
  const text = 'select payload::text as text from drover.job where type = $1 order by order_key';
  return (await bench.pool.query(text, [type])).rows.map((row) => row.text);
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
    tags: ['a', 'b "c\\', '{d,e}'],
    onLost: 'hold',
    expiresAt: '2040-01-01T00:00:00.000Z',
    payload: { text: 'nul \u0000 and a half pair \ud800' },
    parentId,
  });
  const row = await bench.pool.query('select *, payload::text as text from drover.job where id = $1', [id]);
  expect(row.rows[0]).toMatchObject({
    queue: 'mail',
    priority: 7,
    max_attempts: 3,
    options: { backoff: { kind: 'fixed', delay: 5, jitter: 0 }, timeout: 1000, retention: 2000 },
    tags: ['a', 'b "c\\', '{d,e}'],
    hold_if_lost: true,
    expires_at: new Date('2040-01-01T00:00:00.000Z'),
    parent_id: parentId,
    text: '{"text":"nul \\u0000 and a half pair \\ud800"}',
  });
});

test('in one batch each job has its own options, and some have none', async () => {
  const [plain, first, delayed] = await bench.add({}, { priority: 3, tags: [] }, { queue: 'other', delay: 60_000 });
  expect(await bench.row(plain as string)).toMatchObject({ state: 'ready', queue: 'default', priority: 0, tags: null });
  expect(await bench.row(first as string)).toMatchObject({ state: 'ready', priority: 3, tags: null });
  expect(await bench.row(delayed as string)).toMatchObject({ state: 'scheduled', queue: 'other', priority: 0 });
});

test('a job of a lane that did not exist is found by a claim, and its lane is noted once', async () => {
  for (let round = 0; round < 3; round++) await insert({ type: 'first-of-its-lane' }, { type: 'first-of-its-lane' });
  const { rows } = await bench.pool.query(`select queue from drover.lane where type = 'first-of-its-lane'`);
  expect(rows).toEqual([{ queue: 'default' }]);
  expect(await bench.claim(10, { types: ['first-of-its-lane'] })).toHaveLength(6);
});

describe('the same id', () => {
  test('again is the same job, also twice in one batch', async () => {
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
  ])('of a finished job, %s, is the same job', async (_, makeId) => {
    const id = makeId();
    const job = { id, type: `done-${id}` };
    await insert(job);
    await run(job.type);
    expect(await insert(job)).toEqual(new Set([id]));
    expect((await bench.row(id)).state).toBe('succeeded');
  });

  test.each([
    ['a day before now', '-23 hours'],
    ['most of a day ahead, by a clock that has gone back', '20 hours'],
  ])('of a job that has finished %s is the same job', async (_, offset) => {
    const id = newId();
    const job = { id, type: `long-done-${id}` };
    await insert(job);
    await run(job.type);
    await bench.pool.query('update drover.job_history set finished_at = now() + $2::interval where id = $1', [
      id,
      offset,
    ]);
    expect(await insert(job)).toEqual(new Set([id]));
    await expect(bench.row(id)).resolves.toMatchObject({ state: 'succeeded' });
  });

  test('among new ones: only the new ones are added', async () => {
    const [ready, done, fresh] = [newId(), newId(), newId()];
    await insert({ id: done, type: 'mixed-done' }, { id: ready, type: 'mixed' });
    await run('mixed-done');
    const batch = [done, fresh, ready].map((id) => ({ id, type: 'mixed', payload: 'second' }));
    expect(await insert(...batch)).toEqual(new Set([done, ready]));
    expect(await payloadsOf('mixed')).toEqual(['null', '"second"']);
    expect((await bench.row(done)).state).toBe('succeeded');
  });

  test.each([
    ['alone', 1],
    ['among others', 3],
  ])('%s, while the first copy is finishing: its insert waits and does not bring the job back', async (_, count) => {
    const job = await bench.running();
    const commit = await bench.finishWithoutCommit(job.id);
    const type = `after-${job.id}`;
    const others = Array.from({ length: count - 1 }, () => ({ type }));
    const repeated = insert(...others, { id: job.id, type });
    await bench.untilSomeoneWaits();
    await commit();
    expect(await repeated).toEqual(new Set([job.id]));
    expect((await bench.row(job.id)).state).toBe('succeeded');
    expect(await bench.runAll(type)).toHaveLength(count - 1);
  });

  test('that is granted to a worker again is no second grant', async () => {
    const [job, first, second] = [{ id: newId(), type: 'granted' }, newId(), newId()];
    expect(await insertRows([rowOf(job, first)])).toEqual(new Set());
    expect(await insertRows([rowOf(job, second)])).toEqual(new Set([job.id]));
    expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: first, fence: 1, attempt: 1 });
  });

  test('from two servers at once makes one job', async () => {
    const id = newId();
    const answers = await Promise.all(Array.from({ length: 8 }, () => insert({ id, type: 'race' })));
    expect(answers.filter((existing) => !existing.has(id))).toHaveLength(1);
    expect((await bench.row(id)).state).toBe('ready');
  });
});

describe('V1 first tries and repetitions in any order', () => {
  test.each([
    ['one job', 1],
    ['some jobs', 3],
    ['jobs that are copied', 20],
  ])('of %s, with jobs that finish in between, add each job once', async (_, size) => {
    const type = `any-order-${size}`;
    const soon = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    let isOver = false;
    let ran = 0;
    const running = (async () => {
      while (!isOver) ran += (await bench.runAll(type)).length;
    })();
    const addSome = async () => {
      const rows = Array.from({ length: size }, () => rowOf({ type }));
      const tryOnce = async (mayExist: boolean) => {
        await soon();
        return insertJobs(bench.db.bulk, rows, { mayExist });
      };
      const tries = Math.random() < 0.3 ? [tryOnce(false), tryOnce(true), tryOnce(false)] : [tryOnce(false)];
      const existing = (await Promise.all(tries)).flatMap((ids) => [...ids]);
      // each job was added by one of the tries
      expect(existing).toHaveLength((tries.length - 1) * size);
      return rows.map(({ job }) => job.id);
    };
    const ids: string[] = [];
    try {
      while (ids.length < 300) ids.push(...(await Promise.all(Array.from({ length: 8 }, addSome))).flat());
    } finally {
      isOver = true;
      await running;
    }
    for (let more = await bench.runAll(type); more.length > 0; more = await bench.runAll(type)) ran += more.length;
    expect(ran).toBe(ids.length);
    const { rows } = await bench.pool.query('select count(*)::int from drover.job_history where id = any($1)', [ids]);
    expect(rows).toEqual([{ count: ids.length }]);
  });
});

describe('payloads', () => {
  const row = (type: string, payload: string): RowToInsert => ({ job: { ...rowOf({ type }).job, payload } });

  test('arrive as they were, whatever they hold', async () => {
    const payloads = ['a\tb\nc\r\\d', '\\.', '\\N', 'nul \u0000', 'half \ud800', '"\u2028é🐑', { 'k\\': null }, null];
    await insert(...payloads.map((payload) => ({ type: 'odd', payload })));
    expect(await payloadsOf('odd')).toEqual(payloads.map((payload) => JSON.stringify(payload)));
  });

  test.each([['not json'], ['1,2'], ['1 2'], ['[3'], ['']])('of which one is %j: nothing is added', async (payload) => {
    const type = `bad-${newId()}`;
    const rows = [row(type, '1'), row(type, payload), row(type, '4]')];
    await expect(insertRows(rows)).rejects.toMatchObject({ kind: 'refused' });
    expect(await payloadsOf(type)).toEqual([]);
  });
});

test('the history is searched from a day before the hour of the oldest id, and wholly for ids without a time', () => {
  const id = '01890000-0000-7000-8000-000000000000';
  expect(new Date(0x018900000000).toISOString()).toBe('2023-06-28T03:15:47.328Z');
  const rangeOf = (...ids: string[]) => idRangeOf(ids.map((each) => ({ id: each })));
  expect(rangeOf(newId(), id)?.historyFrom).toBe('2023-06-27T03:00:00.000Z');
  expect(rangeOf(id, crypto.randomUUID())).toBeUndefined();
  expect(rangeOf()).toBeUndefined();
});
