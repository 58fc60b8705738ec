import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensurePartitions, pruneHistory } from '../../src/lifecycle/prune.js';
import { createLifecycleBench, type LifecycleBench } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

const DAY_MS = 86_400_000;
const RETENTION_MS = 14 * DAY_MS;

function dayName(daysAgo: number): string {
  return new Date(Date.now() - daysAgo * DAY_MS).toISOString().slice(0, 10);
}

async function makePartition(daysAgo: number): Promise<string> {
  const name = `job_history_${dayName(daysAgo).replaceAll('-', '')}`;
  await bench.pool.query(
    `create table drover.${name} partition of drover.job_history for values from ('${dayName(daysAgo)}') to ('${dayName(daysAgo - 1)}')`,
  );
  return name;
}

async function addFinished(daysAgo: number, keepUntil: string | null = null): Promise<string> {
  const id = newId();
  await bench.pool.query(
    `insert into drover.job_history (id, created_at, run_at, finished_at, keep_until, fence, attempt, max_attempts,
       lost_attempts, priority, state, queue, type, payload)
     select $1, at, at, at, $3, 1, 1, 1, 0, 0, 'succeeded', 'default', 'work', '1'
     from (select ($2::date + interval '12 hours') at time zone 'UTC' as at) t`,
    [id, dayName(daysAgo), keepUntil],
  );
  return id;
}

test('a day past the retention is dropped as a whole; younger ones stay', async () => {
  const old = await makePartition(16);
  const young = await makePartition(13);
  await addFinished(16);
  const kept = await addFinished(13);
  const { dropped } = await pruneHistory(bench.db.reads, RETENTION_MS);
  expect(dropped).toEqual([old]);
  const { rows } = await bench.pool.query(
    `select to_regclass('drover.${old}') is null as old, to_regclass('drover.${young}') is null as young`,
  );
  expect(rows[0]).toEqual({ old: true, young: false });
  expect((await bench.row(kept)).state).toBe('succeeded');
});

test('several servers at once drop each day once, without errors', async () => {
  const days = [await makePartition(17), await makePartition(18), await makePartition(19)];
  const answers = await Promise.all(Array.from({ length: 4 }, () => pruneHistory(bench.db.control, RETENTION_MS)));
  expect(answers.flatMap(({ dropped }) => dropped).sort()).toEqual(days.sort());
});

test('a job with a longer retention stays when its day goes', async () => {
  await makePartition(20);
  const gone = await addFinished(20);
  const kept = await addFinished(20, new Date(Date.now() + DAY_MS).toISOString());
  expect((await pruneHistory(bench.db.reads, RETENTION_MS)).dropped).toEqual([]);
  await expect(bench.row(gone)).rejects.toThrow('0 times');
  expect((await bench.row(kept)).state).toBe('succeeded');
});

test('a job with a shorter retention goes when its time is over', async () => {
  const gone = await addFinished(0, new Date(Date.now() - 1000).toISOString());
  const kept = await addFinished(0, new Date(Date.now() + 60_000).toISOString());
  await pruneHistory(bench.db.reads, RETENTION_MS);
  await expect(bench.row(gone)).rejects.toThrow('0 times');
  expect((await bench.row(kept)).state).toBe('succeeded');
});

test('partitions for the days to come are made by many servers at once, and a finish without one still works', async () => {
  await bench.pool.query(
    `drop table drover.job_history_${new Date(Date.now() + DAY_MS).toISOString().slice(0, 10).replaceAll('-', '')}`,
  );
  await Promise.all(Array.from({ length: 4 }, () => ensurePartitions(bench.db.reads)));
  const far = await addFinished(-300);
  expect((await bench.row(far)).state).toBe('succeeded');
  const { rows } = await bench.pool.query('select count(*)::int as count from drover.job_history_other');
  expect(rows[0].count).toBe(1);
});
