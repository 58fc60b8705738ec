import { newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancelJobs } from '../../src/lifecycle/cancel.js';
import { ensurePartitions, pruneHistory, pruneLanes } from '../../src/lifecycle/prune.js';
import { retryJob } from '../../src/lifecycle/retry.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

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

describe('lanes', () => {
  const lanes = async (type: string) =>
    (await bench.pool.query('select queue from drover.lane where type = $1 order by queue', [type])).rows.map(
      ({ queue }) => queue,
    );

  test('are deleted when no job uses them, if there are many', async () => {
    const type = `tenants-${newId()}`;
    await bench.pool.query(
      `insert into drover.lane (queue, type) select 'tenant-' || n, $1 from generate_series(1, 1200) n`,
      [type],
    );
    await pruneLanes(bench.db.reads, 5000);
    expect(await lanes(type)).toHaveLength(1200);
    await bench.pool.query(`insert into drover.pause (scope, name, paused_by) values ('queue', 'tenant-10', 'ada')`);
    // counted in the rollup
    const done = await bench.add({ queue: 'tenant-9', type });
    expect(await bench.runAll(type)).toEqual(done);
    await bench.add({ queue: 'tenant-7', type }, { queue: 'tenant-8', type, delay: 60_000 });
    await pruneLanes(bench.db.reads);
    expect(await lanes(type)).toEqual(['tenant-10', 'tenant-7', 'tenant-8', 'tenant-9']);
  });

  test('are kept while a job of theirs is being added, and added again after they went', async () => {
    const type = `raced-${newId()}`;
    const queues = ['adding', 'idle'];
    await bench.pool.query('insert into drover.lane (queue, type) select queue, $2 from unnest($1::text[]) queue', [
      queues,
      type,
    ]);
    const client = await bench.pool.connect();
    await client.query('begin');
    await client.query(`select drover.enqueue($1, 'null', '{"queue":"adding"}')`, [type]);
    await pruneLanes(bench.db.reads, 0);
    expect(await lanes(type)).toEqual(queues);
    await client.query('commit');
    await pruneLanes(bench.db.reads, 0);
    expect(await lanes(type)).toEqual(['adding']);

    // as the function does it, held open
    await client.query('begin');
    await client.query('lock table drover.lane in share row exclusive mode');
    await client.query('delete from drover.lane where type = $1', [type]);
    const added = bench.add({ queue: 'idle', type });
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    await expect.poll(async () => (await bench.pool.query(waiting)).rowCount).toBe(1);
    await client.query('commit');
    client.release();
    await added;
    expect(await lanes(type)).toEqual(['idle']);
  });

  test('are added again by the retry of a job that had finished', async () => {
    const type = `retried-${newId()}`;
    const [id = ''] = await bench.add({ type });
    await cancelJobs(bench.db.control, SERVER_ID, [id]);
    await bench.pool.query('delete from drover.lane where type = $1', [type]);
    expect(await retryJob(bench.db.control, id)).toHaveLength(1);
    expect(await bench.claim(1, { types: [type] })).toHaveLength(1);
  });
});
