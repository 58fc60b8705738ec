/** Transactions on real PostgreSQL: what is committed, what the caller learns, and what the connection is worth afterwards. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { connectDatabase, type Database, type Runner } from '../../src/db/database.js';
import type { DatabaseErrorKind } from '../../src/db/database-error.js';
import { sql } from '../../src/db/statement.js';
import { type AnswerHolder, startAnswerHolder } from '../support/answer-holder.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const MAX_ATTEMPTS = 5;
const DEADLINE_MS = 500;

let database: TestDatabase;
let holder: AnswerHolder;
let db: Database;
let failures: DatabaseErrorKind[] = [];
beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  await database.pool.query(`
    create table entry (key int primary key, value int not null);
    create function slow_commit() returns trigger language plpgsql as $$
      begin perform pg_sleep(30); return null; end $$;
    create table slow (key int);
    create constraint trigger slow after insert on slow deferrable initially deferred
      for each row execute function slow_commit();
    create table child (key int references entry deferrable initially deferred)`);
});
beforeEach(async () => {
  await database.pool.query('truncate entry, slow, child; insert into entry values (1, 0), (2, 0)');
  holder = await startAnswerHolder(database.url);
  failures = [];
  // One connection, so each test shows whether the next one gets a connection that works.
  db = connectDatabase({ url: holder.url, poolSize: 1, onFailure: ({ kind }) => failures.push(kind) });
});
afterEach(async () => {
  expect(await db.control.runTexts(sql('after')`select 'works', txid_current_if_assigned()`, [])).toEqual([
    ['works', null],
  ]);
  await db.close();
  await holder.close();
});
afterAll(() => database.drop());

const set = sql('set_value')`update entry set value = $2 where key = $1`;
const get = sql('get_value')`select value from entry where key = $1`;
const insert = sql('insert_entry')`insert into entry values ($1, $2)`;
const nap = sql('nap')`select pg_sleep(30)`;
const pid = sql('pid')`select pg_backend_pid() as pid`;

async function values(): Promise<number[]> {
  const { rows } = await database.pool.query<{ value: number }>('select value from entry order by key');
  return rows.map(({ value }) => value);
}

async function pidOf(tx: Runner): Promise<number> {
  const [row] = await tx.run<{ pid: number }>(pid);
  return (row as { pid: number }).pid;
}

async function terminate(backend: number): Promise<void> {
  await database.pool.query('select pg_terminate_backend($1, 5000)', [backend]);
}

/** Until the backend waits in, or runs, what its state and wait event say. */
async function until(backend: number, condition: string): Promise<void> {
  const query = `select from pg_stat_activity where pid = $1 and ${condition}`;
  await expect.poll(async () => (await database.pool.query(query, [backend])).rowCount).toBe(1);
}

test('its statements are committed together, on one connection, and the result is that of the callback', async () => {
  const result = await db.control.transaction(async (tx) => {
    const first = await pidOf(tx);
    await tx.run(set, [1, 5]);
    await tx.copyIn('copy entry from stdin', Buffer.from('3\t7\n'));
    expect(await values()).toEqual([0, 0]);
    expect(await tx.runTexts(get, ['1'])).toEqual([['5']]);
    expect(await pidOf(tx)).toBe(first);
    return 'result';
  });
  expect(result).toBe('result');
  expect(await values()).toEqual([5, 0, 7]);
  expect(failures).toEqual([]);
});

test('statements sent at once are carried out in their order', async () => {
  await db.bulk.transaction((tx) =>
    Promise.all([tx.run(set, [1, 1]), tx.run(set, [1, 2]), tx.runTexts(set, ['2', '3']), tx.run(set, [1, 4])]),
  );
  expect(await values()).toEqual([4, 3]);
});

test('a callback that throws rolls back, and its error is thrown, also while a statement is under way', async () => {
  const error = new Error('the callback failed');
  const failed = db.control.transaction(async (tx) => {
    await tx.run(set, [1, 5]);
    void tx.run(set, [2, 5]);
    throw error;
  });
  await expect(failed).rejects.toBe(error);
  expect(await values()).toEqual([0, 0]);
});

test('a refused statement rolls back, also if the callback hides its error', async () => {
  const duplicate = { kind: 'refused', sqlState: '23505' };
  const shown = db.control.transaction(async (tx) => {
    await tx.run(set, [1, 5]);
    await tx.run(insert, [1, 0]);
  });
  await expect(shown).rejects.toMatchObject(duplicate);
  const hidden = db.control.transaction(async (tx) => {
    await tx.run(set, [1, 5]);
    await tx.run(insert, [1, 0]).catch(() => {});
  });
  await expect(hidden).rejects.toMatchObject(duplicate);
  expect(await values()).toEqual([0, 0]);
  expect(failures).toEqual(['refused', 'refused']);
});

test('a COMMIT that is refused is told as refused', async () => {
  const refused = db.control.transaction(async (tx) => {
    await tx.run(set, [1, 5]);
    await tx.run(sql('insert_child')`insert into child values (99)`);
  });
  await expect(refused).rejects.toMatchObject({ kind: 'refused', sqlState: '23503' });
  expect(await values()).toEqual([0, 0]);
});

test('it is read committed, whatever the session has for a default', async () => {
  const isolation = sql('isolation')`select current_setting('transaction_isolation')`;
  await db.control.runTexts(sql('serializable')`set default_transaction_isolation = 'serializable'`, []);
  expect(await db.control.transaction((tx) => tx.runTexts(isolation, []))).toEqual([['read committed']]);
});

test('tx cannot open a transaction, and is of no use once its own is over', async () => {
  let kept: Runner | undefined;
  await db.control.transaction(async (tx) => {
    // @ts-expect-error: transactions do not nest
    expect(tx.transaction).toBeUndefined();
    kept = tx;
  });
  await expect(kept?.run(set, [1, 5])).rejects.toThrow('this transaction is over');
  expect(await values()).toEqual([0, 0]);
});

test('a connection lost between two statements: nothing is committed, and the caller learns that', async () => {
  const lost = db.control.transaction(async (tx) => {
    await tx.run(set, [1, 5]);
    await terminate(await pidOf(tx));
    await tx.run(set, [2, 5]);
  });
  await expect(lost).rejects.toMatchObject({ name: 'DatabaseError', kind: 'unavailable' });
  expect(await values()).toEqual([0, 0]);
});

test('a connection lost during a statement: nothing is committed, and the caller learns that', async () => {
  const lost = db.control.transaction(async (tx) => {
    await tx.run(set, [1, 5]);
    const backend = await pidOf(tx);
    const answer = tx.run(nap);
    await Promise.all([expect(answer).rejects.toMatchObject({ kind: 'unavailable' }), endDuring(backend, 'PgSleep')]);
    return answer;
  });
  await expect(lost).rejects.toMatchObject({ kind: 'unavailable', sqlState: '57P01' });
  expect(await values()).toEqual([0, 0]);
  expect(failures).toEqual(['unavailable']);
});

async function endDuring(backend: number, waitEvent: string): Promise<void> {
  await until(backend, `wait_event = '${waitEvent}'`);
  await terminate(backend);
}

test('a connection lost during COMMIT leaves the outcome unknown, and the callback is not run again', async () => {
  let runs = 0;
  let ended: Promise<void> | undefined;
  const lost = db.control.transaction(async (tx) => {
    runs += 1;
    await tx.run(set, [1, 5]);
    await tx.run(sql('insert_slow')`insert into slow values (1)`);
    ended = endDuring(await pidOf(tx), 'PgSleep');
  });
  await expect(lost).rejects.toMatchObject({ kind: 'unknown', sqlState: '57P01' });
  await ended;
  expect(runs).toBe(1);
  expect(failures).toEqual(['unknown']);
});

test('a lost answer to COMMIT leaves the outcome unknown, though it is committed', async () => {
  const direct = await startAnswerHolder(database.url);
  const other = connectDatabase({ url: direct.url, poolSize: 1 });
  let runs = 0;
  const lost = other.control.transaction(async (tx) => {
    runs += 1;
    await tx.run(set, [1, 5]);
    direct.holdAnswersTo('commit');
  });
  const told = expect(lost).rejects.toMatchObject({ name: 'DatabaseError', kind: 'unknown' });
  await expect.poll(() => direct.holds('COMMIT')).toBe(true);
  await direct.close();
  await told;
  expect(runs).toBe(1);
  expect(await values()).toEqual([5, 0]);
  await other.close();
});

test('a frozen connection: past the deadline nothing is committed, and the connection is replaced', async () => {
  const frozen = db.control.transaction(
    async (tx) => {
      await tx.run(set, [1, 5]);
      holder.holdAnswersTo('set_value');
      await tx.run(set, [2, 5]);
    },
    { deadlineMs: DEADLINE_MS },
  );
  await expect(frozen).rejects.toMatchObject({
    kind: 'unavailable',
    message: `the transaction did not end within ${DEADLINE_MS} ms`,
  });
  await expect.poll(values).toEqual([0, 0]);
  expect(failures).toEqual(['unavailable']);
});

test('a connection that freezes at COMMIT: past the deadline the outcome is unknown', async () => {
  const frozen = db.control.transaction(
    async (tx) => {
      await tx.run(set, [1, 5]);
      holder.holdAnswersTo('commit');
    },
    { deadlineMs: DEADLINE_MS },
  );
  await expect(frozen).rejects.toMatchObject({ kind: 'unknown' });
  expect(await values()).toEqual([5, 0]);
  expect(failures).toEqual(['unknown']);
});

test('the deadline also ends a transaction whose callback never settles, and its locks with it', async () => {
  let late: Runner | undefined;
  const stuck = db.control.transaction(
    async (tx) => {
      late = tx;
      await tx.run(set, [1, 5]);
      await new Promise(() => {});
    },
    { deadlineMs: DEADLINE_MS },
  );
  await expect(stuck).rejects.toMatchObject({ kind: 'unavailable' });
  await expect(late?.run(set, [2, 5])).rejects.toThrow('this transaction is over');
  await database.pool.query('update entry set value = 9 where key = 1');
  expect(await values()).toEqual([9, 0]);
});

test('the deadline is for all attempts together', async () => {
  const before = performance.now();
  const late = db.control.transaction(
    async (tx) => {
      await tx.run(sql('slow_failure')`select pg_sleep(0.2), 1`);
      await tx.run(fail, []);
    },
    { deadlineMs: DEADLINE_MS },
  );
  await expect(late).rejects.toMatchObject({ kind: 'unavailable' });
  expect(performance.now() - before).toBeLessThan(DEADLINE_MS + 400);
});

const fail = sql('serialization_failure')`do $$ begin raise exception 'try again' using errcode = '40001'; end $$`;

test('after a serialization failure the whole callback is run again', async () => {
  let runs = 0;
  await db.control.transaction(async (tx) => {
    runs += 1;
    // what a transaction needs that wants to be stricter than the others
    await tx.run(sql('repeatable_read')`set transaction isolation level repeatable read`);
    const [row] = await tx.run<{ value: number }>(get, [1]);
    if (runs === 1) await database.pool.query('update entry set value = 10 where key = 1');
    await tx.run(set, [1, (row as { value: number }).value + 1]);
  });
  expect(runs).toBe(2);
  expect(await values()).toEqual([11, 0]);
  expect(failures).toEqual(['refused']);
});

test('a serialization failure that the callback hides or wraps is not lost', async () => {
  for (const hide of [() => {}, () => Promise.reject(new Error('wrapped'))]) {
    let runs = 0;
    await db.control.transaction(async (tx) => {
      runs += 1;
      await tx.run(set, [1, runs]);
      if (runs === 1) await tx.run(fail).catch(hide);
    });
    expect(await values()).toEqual([2, 0]);
  }
});

test('after the last attempt the serialization failure is told', async () => {
  let runs = 0;
  const refused = db.control.transaction(async (tx) => {
    runs += 1;
    await tx.run(fail);
  });
  await expect(refused).rejects.toMatchObject({ kind: 'refused', sqlState: '40001' });
  expect(runs).toBe(MAX_ATTEMPTS);
});

test('of two transactions in a deadlock one is run again, and both are committed', { timeout: 20_000 }, async () => {
  let runs = 0;
  const both = [
    { runner: db.control, keys: [1, 2] },
    { runner: db.bulk, keys: [2, 1] },
  ];
  let arrived = 0;
  let meet = () => {};
  const met = new Promise<void>((resolve) => {
    meet = resolve;
  });
  await Promise.all(
    both.map(({ runner, keys: [first, second] }) =>
      runner.transaction(async (tx) => {
        runs += 1;
        await tx.run(sql('add')`update entry set value = value + 1 where key = $1`, [first]);
        arrived += 1;
        if (arrived === both.length) meet();
        await met;
        await tx.run(sql('add')`update entry set value = value + 1 where key = $1`, [second]);
      }),
    ),
  );
  // three, or more where the machine is so busy that they meet again
  expect(runs).toBeGreaterThan(both.length);
  expect(await values()).toEqual([2, 2]);
});
