/**
 * Changes of schedules and calendars that are interrupted at every step, and that meet each other and firings. A change happens
 * whole or not at all, and each occurrence is decided once.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { Runner, TransactionRunner } from '../../src/db/database.js';
import { sql } from '../../src/db/statement.js';
import { deleteCalendar, putCalendar } from '../../src/schedules/calendars.js';
import { fireDue } from '../../src/schedules/fire-due.js';
import { findSchedule } from '../../src/schedules/list-schedules.js';
import { pauseSchedule, resumeSchedule } from '../../src/schedules/pause-schedule.js';
import { deleteSchedule } from '../../src/schedules/put-schedule.js';
import { createScheduleBench } from './support/schedule-bench.js';

const bench = createScheduleBench();
const TEST_MS = 60_000;
const backend = sql('backend')`select pg_backend_pid() as pid`;

/** Transactions with something before each statement, and before COMMIT, that they can be counted by. */
function interrupted(before: (step: number, tx: Runner) => Promise<void>): TransactionRunner {
  return {
    ...bench.db.bulk,
    transaction: (work, options) =>
      bench.db.bulk.transaction(async (tx) => {
        let step = 0;
        const result = await work({
          ...tx,
          async run(statement, values) {
            await before(step++, tx);
            return tx.run(statement, values);
          },
        });
        await before(step, tx);
        return result;
      }, options),
  };
}

/** Loses its connection before that step. */
function cutBefore(cutAt: number): TransactionRunner {
  return interrupted(async (step, tx) => {
    if (step !== cutAt) return;
    const [row] = await tx.run<{ pid: number }>(backend);
    await bench.pool.query('select pg_terminate_backend($1, 5000)', [row?.pid]);
  });
}

/** Waits before that step until it is released. */
function heldBefore(heldAt: number) {
  let release = () => {};
  let reached = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const held = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const runner = interrupted(async (step) => {
    if (step !== heldAt) return;
    reached();
    await released;
  });
  return { runner, held, release: () => release() };
}

async function untilSomeoneWaits(): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await bench.pool.query(`select from pg_stat_activity where wait_event_type = 'Lock'`);
    expect(rows.length).toBeGreaterThan(0);
  });
}

async function everything(): Promise<unknown[]> {
  const tables = ['schedule', 'occurrence', 'calendar', 'job'];
  return Promise.all(
    tables.map(async (table) => (await bench.pool.query(`select * from drover.${table} order by 1, 2`)).rows),
  );
}

const excluding = { exclude: { calendars: ['holidays'] }, catchUp: 'all' as const };

describe('a connection that is lost at any step of a change (J7)', () => {
  const changes: [string, (on: TransactionRunner) => Promise<unknown>, string[]][] = [
    ['a first put', (on) => bench.put('new', excluding, on), []],
    ['a put', (on) => bench.put('s', { ...excluding, every: '1m' }, on), ['fired', 'fired']],
    ['a pause', (on) => pauseSchedule(on, 's', 'ada', 'rest'), ['fired', 'fired']],
    ['a resume', (on) => resumeSchedule(on, 'paused'), []],
    ['a change of a calendar', (on) => putCalendar(on, 'holidays', 'more', ['2090-01-01']), ['fired', 'fired']],
    ['the deletion of a calendar', (on) => deleteCalendar(on, 'unused'), []],
  ];

  it.each(changes)('%s has changed nothing, and is then done by a retry', async (_, change, expected) => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    await putCalendar(bench.db.bulk, 'unused', undefined, []);
    for (const name of ['s', 'paused']) await bench.put(name, excluding);
    await pauseSchedule(bench.db.bulk, 'paused', 'ada', undefined);
    await bench.age('s', 2);
    const before = await everything();
    let cutAt = 0;
    for (; ; cutAt++) {
      const error = await change(cutBefore(cutAt)).then(
        () => undefined,
        (failure: Error) => failure,
      );
      if (error === undefined) break;
      expect(error).toMatchObject({ name: 'DatabaseError', kind: 'unavailable' });
      expect(await everything()).toEqual(before);
    }
    // at least one statement and the COMMIT
    expect(cutAt).toBeGreaterThanOrEqual(2);
    expect(await everything()).not.toEqual(before);
    expect(await bench.ledger('s')).toEqual(expected);
  });
});

describe('changes at the same time (J7)', () => {
  it('of one schedule come one after the other, also when all of them create it', async () => {
    const puts = Array.from({ length: 8 }, (_, index) => bench.put('s', { every: `${index + 1}h` }));
    expect(await Promise.all(puts)).toEqual(Array(8).fill(true));
    const { version, specs, nextAt } = await findSchedule(bench.db.reads, 's');
    expect(version).toBe(8);
    const [spec] = specs;
    if (!spec || !('every' in spec)) throw new Error('expected an interval');
    expect(Date.parse(nextAt as string) % spec.every).toBe(0);
  });

  it('a firing leaves a schedule that is being changed to the change, and does not wait for it', async () => {
    for (const name of ['changed', 'other']) await bench.put(name);
    for (const step of [1, 2, 3, 4, 5]) {
      for (const name of ['changed', 'other']) await bench.age(name, 1);
      const { runner, held, release } = heldBefore(step);
      const put = bench.put('changed', { description: `step ${step}` }, runner);
      await held;
      expect((await bench.fire()).firings.map(({ schedule }) => schedule)).toEqual(['other']);
      release();
      expect(await put).toBe(true);
      expect((await bench.fire()).taken).toBe(0);
      expect(await bench.ledger('changed')).toEqual(Array(step).fill('fired'));
      await bench.shiftLedger();
    }
  });

  it('a firing leaves the schedules of a calendar that is being changed to the change', async () => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    await bench.put('s', excluding);
    await bench.age('s', 2);
    const { runner, held, release } = heldBefore(3);
    const changed = putCalendar(runner, 'holidays', 'more', []);
    await held;
    expect((await bench.fire()).taken).toBe(0);
    release();
    expect(await changed).toBe(1);
    expect(await bench.ledger('s')).toEqual(['fired', 'fired']);
  });

  it('a change waits for a firing, and decides nothing again', async () => {
    await bench.put('s');
    await bench.age('s', 1);
    let put: Promise<boolean> | undefined;
    await bench.db.control.transaction(async (tx) => {
      expect((await fireDue(tx, 10, { index: 0, of: 1 })).jobs).toBe(1);
      put = bench.put('s', { every: '1m' });
      await untilSomeoneWaits();
    });
    expect(await put).toBe(true);
    expect(await bench.ledger('s')).toEqual(['fired']);
    const { specs, nextAt } = await findSchedule(bench.db.reads, 's');
    expect(specs).toMatchObject([{ every: 60_000 }]);
    expect(Date.parse(nextAt as string) - Date.now()).toBeLessThanOrEqual(60_000);
  });

  it('a change of a calendar sees a schedule that is about to use it', async () => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    const { runner, held, release } = heldBefore(2);
    const put = bench.put(
      'once',
      { every: undefined, at: ['2090-05-01T12:00:00Z', '2090-05-02T12:00:00Z'], exclude: { calendars: ['holidays'] } },
      runner,
    );
    await held;
    const changed = putCalendar(bench.db.bulk, 'holidays', undefined, ['2090-05-01']);
    await untilSomeoneWaits();
    release();
    await put;
    expect(await changed).toBe(1);
    expect((await findSchedule(bench.db.reads, 'once')).nextAt).toBe('2090-05-02T12:00:00.000Z');
  });

  it('a calendar that a schedule is about to use cannot be deleted', async () => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    const { runner, held, release } = heldBefore(2);
    const put = bench.put('s', excluding, runner);
    await held;
    const deleted = deleteCalendar(bench.db.bulk, 'holidays').catch((error: Error) => error.message);
    await untilSomeoneWaits();
    release();
    await put;
    expect(await deleted).toBe('calendar holidays is used by the schedule s');
  });

  it(
    'lose no occurrence, decide none twice and never wait for each other in a circle',
    async () => {
      const names = ['a', 'b', 'c'];
      const everySecond = { every: '1s', anchor: '2020-01-01T00:00:00Z', ...excluding };
      await putCalendar(bench.db.bulk, 'holidays', undefined, []);
      await Promise.all(names.map((name) => bench.put(name, everySecond)));
      let isOver = false;
      const repeatedly = async (work: (round: number) => Promise<unknown>) => {
        for (let round = 0; !isOver; round++) await work(round);
      };
      const work = [
        ...names.map((name) => repeatedly((round) => bench.put(name, { ...everySecond, description: `${round}` }))),
        repeatedly((round) => bench.put('a', { ...everySecond, description: `other ${round}`, spread: '3s' })),
        repeatedly((round) => putCalendar(bench.db.bulk, 'holidays', `${round}`, [])),
        repeatedly(() => bench.fire()),
        repeatedly(() => bench.fire(bench.db.control)),
        repeatedly(async (round) => {
          await bench.put(`new ${round}`, everySecond);
          await deleteSchedule(bench.db.bulk, `new ${round}`);
        }),
      ];
      await Promise.race([sleep(5000), Promise.all(work)]);
      isOver = true;
      await Promise.all(work);
      const { rows } = await bench.pool.query<{
        name: string;
        missing: number;
        fired: number;
        counted: number;
        jobs: number;
      }>(
        `select s.name, count(*) filter (where o.state = 'fired')::int as fired, s.fired::int as counted,
           floor(extract(epoch from s.handled_until))::int - floor(extract(epoch from s.created_at))::int - count(*)::int as missing,
           count(j.id)::int as jobs
         from drover.schedule s join drover.occurrence o on o.schedule_id = s.id left join drover.job j on j.id = o.job_id
         where s.name = any($1) group by s.id order by s.name`,
        [names],
      );
      expect(rows.map(({ name }) => name)).toEqual(names);
      const deadlocks = 'select deadlocks::int from pg_stat_database where datname = current_database()';
      expect((await bench.pool.query(deadlocks)).rows).toEqual([{ deadlocks: 0 }]);
      for (const { fired, counted, missing, jobs } of rows) {
        expect(fired).toBeGreaterThanOrEqual(4);
        expect([missing, counted, jobs]).toEqual([0, fired, fired]);
      }
    },
    TEST_MS,
  );
});
