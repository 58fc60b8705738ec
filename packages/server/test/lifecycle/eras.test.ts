/** Jobs that are added without a look at the history, and what becomes of those that come late. See decision 0019. */
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '@drover/protocol';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { insertJobs, type RowToInsert } from '../../src/lifecycle/enqueue.js';
import { createEras, type Eras } from '../../src/lifecycle/eras.js';
import { createKnownLanes } from '../../src/lifecycle/known-lanes.js';
import { createLifecycleBench, type LifecycleBench } from '../support/lifecycle.js';

const TYPE = 'of-an-era';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

/** The adds of one server. */
function createAdds() {
  const lanes = createKnownLanes();
  lanes.add('default', TYPE);
  const errors: Error[] = [];
  const eras = createEras({ db: bench.db.bulk, pauseMs: 1, onError: (error) => errors.push(error) });
  let withoutLook = 0;
  const counting: Runner = {
    ...bench.db.bulk,
    async runTexts(statement, values) {
      const rows = await bench.db.bulk.runTexts(statement, values);
      if (statement.name === 'insert_ready_job_in_era') withoutLook += 1;
      return rows;
    },
  };
  return {
    eras,
    errors,
    /** How many jobs were added without a look at the history. */
    withoutLook: () => withoutLook,
    addFirst: (row: RowToInsert, era: number) => insertJobs(counting, [row], { lanes, eras, era }),
    addAgain: (row: RowToInsert) => insertJobs(counting, [row], { isRepeated: true, eras }),
  };
}

const newRow = (): RowToInsert => ({ job: { id: newId(), type: TYPE }, payloadText: 'null' });

let adds: ReturnType<typeof createAdds>;
let other: ReturnType<typeof createAdds>;
beforeEach(async () => {
  [adds, other] = [createAdds(), createAdds()];
  await Promise.all([adds.eras.learn(), other.eras.learn()]);
  await bench.pool.query(`insert into drover.lane (queue, type) values ('default', $1) on conflict do nothing`, [TYPE]);
});

afterEach(() => {
  for (const { eras, errors } of [adds, other]) {
    eras.stop();
    expect(errors).toEqual([]);
  }
});

/** How many jobs were there to run. */
const runAll = async () => (await bench.runAll(TYPE)).length;
const known = async (eras: Eras) => expect.poll(() => eras.current).toBeGreaterThan(0);

test('a job of this era is added, and a second one with its id is not while it is there', async () => {
  const row = newRow();
  expect(await adds.addFirst(row, adds.eras.current)).toEqual(new Set());
  expect(await adds.addFirst(row, adds.eras.current)).toEqual(new Set([row.job.id]));
  expect(await runAll()).toBe(1);
});

test('V1 a first try that comes after its repetition has finished adds nothing', async () => {
  const row = newRow();
  const era = adds.eras.current;
  expect(await other.addAgain(row)).toEqual(new Set());
  expect(await runAll()).toBe(1);
  expect(await adds.addFirst(row, era)).toEqual(new Set([row.job.id]));
  expect(await runAll()).toBe(0);
  await known(adds.eras);
  expect(adds.eras.current).toBe(other.eras.current);
});

test('V1 nor does one that is under way while its repetition comes, runs and finishes', async () => {
  const row = newRow();
  const { id } = row.job;
  const era = adds.eras.current;
  await insertJobs(bench.db.bulk, [row]);
  await bench.claim(1, { types: [TYPE] });
  const commit = await bench.finishWithoutCommit(id);
  const late = adds.addFirst(row, era);
  await bench.untilSomeoneWaits();
  await other.addAgain(newRow());
  await commit();
  expect(await late).toEqual(new Set([id]));
  expect((await bench.row(id)).state).toBe('succeeded');
  expect(await runAll()).toBe(1);
});

test('an era that was ended has ended, whatever becomes of the transaction', async () => {
  const client = await bench.pool.connect();
  await client.query('begin');
  await client.query('select drover.end_era()');
  await client.query('rollback');
  client.release();
  const before = adds.eras.current;
  await adds.eras.learn();
  expect(adds.eras.current).not.toBe(before);
});

test('an era that is not the one this server knows, or none, means a look', async () => {
  const rows = [newRow(), newRow()] as const;
  for (const row of rows) await adds.addFirst(row, adds.eras.current);
  expect(await runAll()).toBe(2);
  expect(await adds.addFirst(rows[0], adds.eras.current + 1)).toEqual(new Set([rows[0].job.id]));
  expect(await adds.addFirst(rows[1], 0)).toEqual(new Set([rows[1].job.id]));
  expect(await runAll()).toBe(0);
});

test('V1 first tries and repetitions in any order, with jobs that finish in between, add each job once', async () => {
  const JOBS = 400;
  const soon = () => sleep(Math.random() * 20);
  let isOver = false;
  let ran = 0;
  const running = (async () => {
    while (!isOver) ran += await runAll();
  })();
  const addOne = async () => {
    const row = newRow();
    const era = adds.eras.current;
    const first = async () => {
      await soon();
      return adds.addFirst(row, era);
    };
    const repetition = async () => {
      await soon();
      if (Math.random() < 0.5) await soon();
      return other.addAgain(row);
    };
    const answers = await Promise.all(Math.random() < 0.1 ? [first(), repetition()] : [first()]);
    expect(answers.filter((existed) => existed.size === 0)).toHaveLength(1);
    return row.job.id;
  };
  const ids: string[] = [];
  try {
    for (let begun = 0; begun < JOBS; begun += 8) ids.push(...(await Promise.all(Array.from({ length: 8 }, addOne))));
  } finally {
    isOver = true;
    await running;
  }
  ran += await runAll();
  expect(ran).toBe(JOBS);
  const { rows } = await bench.pool.query('select count(*)::int from drover.job_history where id = any($1)', [ids]);
  expect(rows).toEqual([{ count: JOBS }]);
  // the others looked, which must be no reason for success
  expect(adds.withoutLook()).toBeGreaterThan(10);
});

test('what cannot be read is asked for again', async () => {
  await bench.pool.query('alter sequence drover.era rename to era_away');
  const errors: Error[] = [];
  const eras = createEras({ db: bench.db.bulk, pauseMs: 1, onError: (error) => errors.push(error) });
  await eras.learn();
  expect(eras.current).toBe(0);
  await bench.pool.query('alter sequence drover.era_away rename to era');
  await known(eras);
  eras.stop();
  expect(errors.length).toBeGreaterThan(0);
});
