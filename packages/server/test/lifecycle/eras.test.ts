/** Jobs that are added without a look at the history, and what becomes of those that come late. See decision 0019. */
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '@drover/protocol';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { insertJobs, type RowToInsert } from '../../src/lifecycle/enqueue.js';
import { createEras, type Eras } from '../../src/lifecycle/eras.js';
import { MAX_JOBS_IN_ERA } from '../../src/lifecycle/insert-many.js';
import { createKnownLanes } from '../../src/lifecycle/known-lanes.js';
import { UnreadableJson, UnreadJson } from '../../src/lifecycle/unread-json.js';
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
      if (/^insert_ready_jobs?_in_era$/.test(statement.name)) withoutLook += 1;
      return rows;
    },
  };
  return {
    lanes,
    eras,
    errors,
    /** How many statements have added jobs without a look at the history. */
    withoutLook: () => withoutLook,
    addFirst: (rows: RowToInsert[], era: number) => insertJobs(counting, rows, { lanes, eras, era }),
    addAgain: (rows: RowToInsert[]) => insertJobs(counting, rows, { isRepeated: true, eras }),
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

const newRows = (count: number) => Array.from({ length: count }, newRow);
const idsOf = (rows: RowToInsert[]) => new Set(rows.map(({ job }) => job.id));

describe.each([
  ['a job alone', 1],
  ['jobs together', 3],
])('%s', (_, count) => {
  test('of this era are added without a look, and not a second time while they are there', async () => {
    const rows = newRows(count);
    expect(await adds.addFirst(rows, adds.eras.current)).toEqual(new Set());
    expect(adds.withoutLook()).toBe(1);
    expect(await adds.addFirst(rows, adds.eras.current)).toEqual(idsOf(rows));
    expect(await runAll()).toBe(count);
  });

  test('V1 add nothing by a first try that comes after its repetition has finished', async () => {
    const rows = newRows(count);
    const era = adds.eras.current;
    expect(await other.addAgain(rows)).toEqual(new Set());
    expect(await runAll()).toBe(count);
    expect(await adds.addFirst(rows, era)).toEqual(idsOf(rows));
    expect(await runAll()).toBe(0);
    await known(adds.eras);
    expect(adds.eras.current).toBe(other.eras.current);
  });

  test('V1 nor by one that is under way while its repetition comes, runs and finishes', async () => {
    const rows = newRows(count);
    // the last one: the era must not be read before all of them are there
    const { job } = rows.at(-1) as RowToInsert;
    const era = adds.eras.current;
    await insertJobs(bench.db.bulk, rows.slice(-1));
    await bench.claim(1, { types: [TYPE] });
    const commit = await bench.finishWithoutCommit(job.id);
    const late = adds.addFirst(rows, era);
    await bench.untilSomeoneWaits();
    await other.addAgain([newRow()]);
    await commit();
    expect(await late).toEqual(new Set([job.id]));
    expect(adds.withoutLook()).toBe(0);
    expect((await bench.row(job.id)).state).toBe('succeeded');
    expect(await runAll()).toBe(count);
  });

  test('are looked up if their era is not the one that this server knows, or none', async () => {
    const rows = [newRows(count), newRows(count)] as const;
    for (const each of rows) await adds.addFirst(each, adds.eras.current);
    expect(await runAll()).toBe(2 * count);
    expect(await adds.addFirst(rows[0], adds.eras.current + 1)).toEqual(idsOf(rows[0]));
    expect(await adds.addFirst(rows[1], 0)).toEqual(idsOf(rows[1]));
    expect(await runAll()).toBe(0);
  });

  test('whose lane is not known are looked up, and the next ones are not', async () => {
    adds.lanes.forget();
    await adds.addFirst(newRows(count), adds.eras.current);
    expect(adds.withoutLook()).toBe(0);
    await adds.addFirst(newRows(count), adds.eras.current);
    expect(adds.withoutLook()).toBe(1);
    expect(await runAll()).toBe(2 * count);
  });
});

test('more jobs together than one insert is good for are looked up', async () => {
  await adds.addFirst(newRows(MAX_JOBS_IN_ERA + 1), adds.eras.current);
  expect(adds.withoutLook()).toBe(0);
  await adds.addFirst(newRows(MAX_JOBS_IN_ERA), adds.eras.current);
  expect(adds.withoutLook()).toBe(1);
  let ran = 0;
  for (let more = await runAll(); more > 0; more = await runAll()) ran += more;
  expect(ran).toBe(2 * MAX_JOBS_IN_ERA + 1);
});

test('jobs together of which one payload is no JSON are not added, whatever they are when put together', async () => {
  const rows = ['1,2', '[3', '4]'].map((text) => {
    const payload = new UnreadJson(text);
    return { job: { id: newId(), type: TYPE, payload }, payloadText: text };
  });
  await expect(adds.addFirst(rows, adds.eras.current)).rejects.toThrow(UnreadableJson);
  expect(await runAll()).toBe(0);
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

test('V1 first tries and repetitions in any order, with jobs that finish in between, add each job once', async () => {
  const JOBS = 400;
  const soon = () => sleep(Math.random() * 20);
  let isOver = false;
  let ran = 0;
  const running = (async () => {
    while (!isOver) ran += await runAll();
  })();
  const addSome = async () => {
    const rows = newRows(Math.random() < 0.5 ? 1 : 2);
    const era = adds.eras.current;
    const first = async () => {
      await soon();
      return adds.addFirst(rows, era);
    };
    const repetition = async () => {
      await soon();
      if (Math.random() < 0.5) await soon();
      return other.addAgain(rows);
    };
    const answers = await Promise.all(Math.random() < 0.1 ? [first(), repetition()] : [first()]);
    // each of them was added by one of the tries
    const existed = answers.flatMap((ids) => [...ids]);
    expect(existed).toHaveLength((answers.length - 1) * rows.length);
    return [...idsOf(rows)];
  };
  const ids: string[] = [];
  try {
    while (ids.length < JOBS) ids.push(...(await Promise.all(Array.from({ length: 8 }, addSome))).flat());
  } finally {
    isOver = true;
    await running;
  }
  ran += await runAll();
  expect(ran).toBe(ids.length);
  const { rows } = await bench.pool.query('select count(*)::int from drover.job_history where id = any($1)', [ids]);
  expect(rows).toEqual([{ count: ids.length }]);
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
