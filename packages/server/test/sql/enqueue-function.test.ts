/** `drover.enqueue` and `drover.enqueue_many`: jobs that are added inside the caller's own transaction. */
import { newId } from '@drover/protocol';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { register, succeeded } from '../support/raw-worker.js';

let bench: ApiBench;
/** A role as an application has it: it may call the two functions and nothing else. */
let app: pg.Client;
const ROLE = `app_${newId().replaceAll('-', '')}`;

beforeAll(async () => {
  bench = await createApiBench({ pollMs: 50 });
  const { pool } = bench.database;
  await pool.query(`create role ${ROLE} login password 'app'`);
  await pool.query(`revoke all on all functions in schema drover from public`);
  await pool.query(`grant usage on schema drover to ${ROLE}`);
  await pool.query(`grant execute on function drover.enqueue(text, json, json), drover.enqueue_many(json) to ${ROLE}`);
  const url = new URL(bench.database.url);
  url.username = ROLE;
  url.password = 'app';
  app = new pg.Client({ connectionString: url.href });
  await app.connect();
});
afterAll(async () => {
  await app.end();
  await bench.database.pool.query(`drop owned by ${ROLE}; drop role ${ROLE}`);
  await bench.close();
});

async function enqueue(type: unknown, payload: unknown = null, options: unknown = {}): Promise<string> {
  const { rows } = await app.query('select drover.enqueue($1, $2, $3) as id', [
    type,
    JSON.stringify(payload),
    JSON.stringify(options),
  ]);
  return rows[0].id;
}

async function enqueueMany(jobs: unknown): Promise<string[]> {
  const { rows } = await app.query('select drover.enqueue_many($1)::text[] as ids', [JSON.stringify(jobs)]);
  return rows[0].ids;
}

async function rowOf(id: string): Promise<Record<string, unknown> | undefined> {
  const { rows } = await bench.database.pool.query('select to_jsonb(j) as row from drover.job j where id = $1', [id]);
  return rows[0]?.row;
}

async function jobCount(): Promise<number> {
  const { rows } = await bench.database.pool.query('select count(*)::int as count from drover.job');
  return rows[0].count;
}

describe('in a transaction', () => {
  test('that commits, the job is there and is found by polling', async () => {
    const type = `t-${newId()}`;
    const { worker } = await register(bench.port, { types: [type] });
    await app.query('begin');
    const id = await enqueue(type, { order: 7 }, { queue: 'orders' });
    expect(await rowOf(id)).toBeUndefined();
    await app.query('commit');
    const [job] = (await worker.next('assign')).jobs;
    expect(job).toMatchObject({ id, type, queue: 'orders', attempt: 1, fence: 1, payload: { order: 7 } });
    worker.send({ kind: 'outcomes', items: [succeeded({ id, fence: 1 }, { result: '"done"' })] });
    await worker.next('ack');
    const { body } = await bench.call(`/api/v1/jobs/${id}/result`);
    expect(body).toMatchObject({ state: 'succeeded', result: 'done' });
    worker.terminate();
  });

  test('that is rolled back, there was never anything', async () => {
    const type = `t-${newId()}`;
    await app.query('begin');
    const ids = [await enqueue(type), ...(await enqueueMany([{ type }, { type }]))];
    await app.query('rollback');
    for (const id of ids) {
      expect(await rowOf(id)).toBeUndefined();
      expect((await bench.call(`/api/v1/jobs/${id}`)).status).toBe(404);
    }
  });

  test('one wrong job among many leaves none of them', async () => {
    const before = await jobCount();
    await expect(enqueueMany([{ type: 'good' }, { type: 'not good' }, { type: 'good' }])).rejects.toThrow(/type/);
    expect(await jobCount()).toBe(before);
  });
});

describe('every option', () => {
  test('is kept as the API would keep it', async () => {
    const id = newId();
    const options = {
      id,
      queue: 'mail',
      priority: -5,
      maxAttempts: 3,
      backoff: { kind: 'fixed', delay: '2s', jitter: 0.5 },
      timeout: '90s',
      retention: '3d',
      tags: ['one', 'zwei & drei'],
      runAt: '2035-01-31T12:00:00.500+02:00',
      expiresAt: '2035-02-01T00:00:00Z',
    };
    expect(await enqueue('send', { to: 'Ada', odd: '\u2028' }, options)).toBe(id);
    const { body } = await bench.call(`/api/v1/jobs/${id}`);
    expect(body).toMatchObject({
      id,
      type: 'send',
      state: 'scheduled',
      queue: 'mail',
      priority: -5,
      maxAttempts: 3,
      backoff: { kind: 'fixed', delay: 2000, jitter: 0.5 },
      timeout: 90_000,
      retention: 3 * 86_400_000,
      tags: ['one', 'zwei & drei'],
      runAt: '2035-01-31T10:00:00.500Z',
      expiresAt: '2035-02-01T00:00:00.000Z',
      payload: { to: 'Ada', odd: '\u2028' },
    });
  });

  test('has the default of the API', async () => {
    const { rows } = await app.query("select drover.enqueue('plain') as id");
    const viaApi = await bench.call('/api/v1/jobs', { method: 'POST', body: { type: 'plain' } });
    const mine = await rowOf(rows[0].id);
    const theirs = await rowOf((viaApi.body as { id: string }).id);
    const own = ['id', 'created_at', 'run_at', 'order_key'];
    const strip = (row: Record<string, unknown> | undefined) =>
      Object.fromEntries(Object.entries(row ?? {}).filter(([key]) => !own.includes(key)));
    expect(strip(mine)).toEqual(strip(theirs));
  });

  test.each([
    [
      'exponential',
      { kind: 'exponential' },
      { kind: 'exponential', base: 1000, factor: 2, max: 3_600_000, jitter: 0.2 },
    ],
    ['list', { kind: 'list', delays: ['1s', 500] }, { kind: 'list', delays: [1000, 500], jitter: 0 }],
    ['none', null, null],
  ])('back-off %s is filled in', async (_, backoff, expected) => {
    const row = await rowOf(await enqueue('plain', null, { backoff }));
    expect((row as { options?: { backoff: unknown } }).options?.backoff ?? null).toEqual(expected);
  });

  test.each([
    ['250ms', 250],
    ['1.5s', 1500],
    ['10m', 600_000],
    ['2h', 7_200_000],
    [1234, 1234],
    [0, 0],
  ])('delay %s makes it wait that long', async (delay, ms) => {
    const row = await rowOf(await enqueue('plain', null, { delay }));
    const waited = Date.parse(String(row?.run_at)) - Date.parse(String(row?.created_at));
    expect(waited).toBe(ms);
    expect(row?.state).toBe(ms > 0 ? 'scheduled' : 'ready');
  });

  test('null is as if it were not there', async () => {
    const names = [
      'queue',
      'priority',
      'maxAttempts',
      'timeout',
      'retention',
      'tags',
      'delay',
      'runAt',
      'expiresAt',
      'id',
    ];
    const row = await rowOf(await enqueue('plain', null, Object.fromEntries(names.map((name) => [name, null]))));
    expect(row).toMatchObject({ state: 'ready', queue: 'default', max_attempts: 10, tags: null });
  });
});

describe('the same id', () => {
  test('is the same job: again, in one batch, beside the API, and after it has finished', async () => {
    const type = `t-${newId()}`;
    const id = newId();
    await enqueue(type, 1, { id });
    expect(await enqueue(type, 2, { id: id.toUpperCase() })).toBe(id);
    expect(
      await enqueueMany([
        { type, id, payload: 3 },
        { type, id },
      ]),
    ).toEqual([id, id]);
    const { body } = await bench.call('/api/v1/jobs', { method: 'POST', body: { type, id, payload: 4 } });
    expect(body).toMatchObject({ id, created: false });
    expect((await rowOf(id))?.payload).toBe(1);

    const { worker } = await register(bench.port, { types: [type] });
    await worker.next('assign');
    worker.send({ kind: 'outcomes', items: [succeeded({ id, fence: 1 })] });
    await worker.next('ack');
    expect(await enqueue(type, 5, { id })).toBe(id);
    expect(await rowOf(id)).toBeUndefined();
    worker.terminate();
  });

  test('of two transactions at once makes one job: the second waits for the first', async () => {
    const id = newId();
    await app.query('begin');
    await enqueue('plain', 'first', { id });
    const second = bench.database.pool.query("select drover.enqueue('plain', '\"second\"', $1)", [
      JSON.stringify({ id }),
    ]);
    await app.query('commit');
    await second;
    expect((await rowOf(id))?.payload).toBe('first');
  });
});

describe('enqueue_many', () => {
  test('gives the ids in the order of the jobs', async () => {
    const ids = Array.from({ length: 50 }, () => newId()).reverse();
    expect(await enqueueMany(ids.map((id) => ({ type: 'plain', id })))).toEqual(ids);
    expect(await enqueueMany([])).toEqual([]);
  });

  test('takes ten thousand and not one more', async () => {
    const jobs = Array.from({ length: 10_000 }, () => ({ type: 'bulk' }));
    await app.query('begin');
    expect(await enqueueMany(jobs)).toHaveLength(10_000);
    await app.query('rollback');
    await expect(enqueueMany([...jobs, { type: 'bulk' }])).rejects.toThrow('expected an array of at most 10000 jobs');
  });
});

describe('bad input is answered with the field, the value and what was expected', () => {
  const LONG = 'x'.repeat(129);
  const options: [object, RegExp][] = [
    [{ id: 'mine' }, /id: expected a UUID \(idempotencyKey takes any text\), got "mine"/],
    [{ id: 'ffffffff-ffff-7fff-8fff-ffffffffffff' }, /id: its time is more than a day ahead/],
    [{ queue: '' }, /queue: expected a name/],
    [{ queue: 'a b' }, /queue: expected a name .* got "a b"/],
    [{ queue: LONG }, /queue: expected a name .* at most 128 characters/],
    [{ queue: { a: 1 } }, /queue: expected a name/],
    [{ priority: 1001 }, /priority: expected a whole number from -1000 to 1000, got 1001/],
    [{ priority: 0.5 }, /priority: expected a whole number .* got 0.5/],
    [{ priority: 'high' }, /priority: expected a whole number .* got "high"/],
    [{ priority: 99999999999999 }, /priority: expected a whole number/],
    [{ maxAttempts: 0 }, /maxAttempts: expected a whole number from 1 to 1000, got 0/],
    [{ maxAttempts: true }, /maxAttempts: expected a whole number .* got true/],
    [{ timeout: 'soon' }, /timeout: expected a duration such as "30s".* got "soon"/],
    [{ timeout: -1 }, /timeout: expected a duration .* got -1/],
    [{ retention: '99999999d' }, /retention: expected a duration .* got "99999999d"/],
    [{ delay: '5' }, /delay: expected a duration such as "30s".* got "5"/],
    [{ delay: '5 minutes' }, /delay: expected a duration .* got "5 minutes"/],
    [{ delay: [] }, /delay: expected a duration/],
    [{ runAt: 'tomorrow' }, /runAt: expected a time in ISO 8601 .* got "tomorrow"/],
    [{ runAt: '2030-01-31' }, /runAt: expected a time in ISO 8601/],
    [{ runAt: '2030-01-31T12:00:00' }, /runAt: expected a time in ISO 8601/],
    [{ runAt: '2030-02-30T12:00:00Z' }, /runAt: expected a time in ISO 8601 .* got "2030-02-30/],
    [{ runAt: '2030-01-31T25:00:00Z' }, /runAt: expected a time in ISO 8601/],
    [{ runAt: 5 }, /runAt: expected a time in ISO 8601 .* got 5/],
    [{ expiresAt: '' }, /expiresAt: expected a time in ISO 8601/],
    [{ delay: 1, runAt: '2030-01-31T12:00:00Z' }, /runAt: expected either delay or runAt, not both/],
    [
      { tags: 'urgent' },
      /tags: expected at most 20 strings of 1 to 128 characters without control characters, got "urgent"/,
    ],
    [{ tags: [''] }, /tags: expected at most 20 strings/],
    [{ tags: [5] }, /tags: expected at most 20 strings .* got \[5\]/],
    [{ tags: [LONG] }, /tags: expected at most 20 strings/],
    [{ tags: Array(21).fill('x') }, /tags: expected at most 20 strings/],
    [{ backoff: 'fast' }, /backoff: expected a JSON object, got "fast"/],
    [{ backoff: { kind: 'random' } }, /backoff.kind: expected exponential, fixed or list, got "random"/],
    [{ backoff: { kind: 'fixed' } }, /backoff.delay: expected a duration/],
    [{ backoff: { kind: 'fixed', delay: 'x' } }, /backoff.delay: expected a duration .* got "x"/],
    [{ backoff: { kind: 'fixed', delay: 1, base: 1 } }, /backoff: unknown field "base"/],
    [{ backoff: { kind: 'list' } }, /backoff.delays: expected 1 to 100 durations, got nothing/],
    [{ backoff: { kind: 'list', delays: [] } }, /backoff.delays: expected 1 to 100 durations/],
    [{ backoff: { kind: 'list', delays: ['x'] } }, /backoff.delays\[0\]: expected a duration .* got "x"/],
    [{ backoff: { kind: 'exponential', factor: 0 } }, /backoff.factor: expected a number from 1 to 10, got 0/],
    [{ backoff: { kind: 'exponential', jitter: 2 } }, /backoff.jitter: expected a number from 0 to 1, got 2/],
    [{ onLost: 'keep' }, /onLost: expected rerun or hold, got "keep"/],
    [{ colour: 'red' }, /options: unknown field "colour", expected one of id, queue, priority/],
    [{ type: 'other' }, /options: unknown field "type"/],
    [{ payload: 1 }, /options: unknown field "payload"/],
    [[1], /options: expected a JSON object, got \[1\]/],
  ];
  test.each(options)('%j', async (given, message) => {
    const failure = enqueue('plain', null, given);
    await expect(failure).rejects.toThrow(message);
    await expect(failure).rejects.toThrow(/^drover: /);
    await expect(failure).rejects.toMatchObject({ code: '22023' });
  });

  test.each([
    [null, /type: expected the name of a job type/],
    ['', /type: expected a name/],
    ['two words', /type: expected a name .* got "two words"/],
    ['-dash', /type: expected a name/],
    [LONG, /type: expected a name/],
  ])('type %j', async (type, message) => {
    await expect(enqueue(type)).rejects.toThrow(message);
  });

  test.each([
    [{}, /expected an array of at most 10000 jobs/],
    ['x', /expected an array/],
    [null, /expected an array/],
    [[5], /job: expected a JSON object, got 5/],
    [[null], /job: expected a JSON object, got null/],
    [[{}], /type: expected the name of a job type/],
    [[{ type: 'plain', payloads: 1 }], /unknown field "payloads", expected one of type, payload, id, queue/],
  ])('enqueue_many of %j', async (jobs, message) => {
    await expect(enqueueMany(jobs)).rejects.toThrow(message);
  });

  test('a payload over the limit, which is one for the whole cluster', async () => {
    const fits = 'x'.repeat(1024 * 1024 - 2);
    const id = await enqueue('plain', fits);
    expect(String((await rowOf(id))?.payload)).toHaveLength(fits.length);
    const over = enqueue('plain', `${fits}x`);
    await expect(over).rejects.toThrow('payload: expected at most 1048576 bytes of JSON, got 1048577');
    await expect(over).rejects.toMatchObject({ code: '54000' });
  });
});

describe('as strict as the API, and as lenient', () => {
  const refused: [object, RegExp][] = [
    [{ runAt: '2030-01-31T12:00:00+99:99' }, /runAt: expected a time in ISO 8601/],
    [{ tags: ['a\u0000'] }, /options: expected strings without \\u0000/],
    [{ runAt: '1900-01-31T12:00:00Z' }, /runAt: expected a time between the years 1970 and 9999/],
    [{ priority: '5' }, /priority: expected a whole number/],
    [{ queue: true }, /queue: expected a name/],
    [{ tags: ['two\nlines'] }, /tags: expected/],
  ];
  test.each(refused)('%j', async (given, message) => {
    await expect(enqueue('plain', null, given)).rejects.toThrow(message);
  });

  test('a payload with \\u0000, which the API takes', async () => {
    const payload = { odd: '\u0000' };
    expect((await bench.call('/api/v1/jobs', { method: 'POST', body: { type: 'plain', payload } })).status).toBe(201);
    await enqueue('plain', payload);
    await expect(
      app.query('select drover.enqueue_many($1)', [JSON.stringify([{ type: 'plain', payload }])]),
    ).rejects.toThrow(/payload: .* add such a job with drover.enqueue/);
  });

  test('a payload of more levels than the API takes', async () => {
    const payload = `${'['.repeat(5000)}${']'.repeat(5000)}`;
    await expect(app.query("select drover.enqueue('plain', $1)", [payload])).rejects.toThrow(/payload: expected/);
  });
});

describe('a role that may only call the two functions', () => {
  test.each([
    'select * from drover.job',
    'select * from drover.job_history',
    'select * from drover.setting',
    "insert into drover.lane values ('q', 't')",
    'select drover.insert_jobs(null, null, null, null, null, null, now())',
    "select drover.insert_job_rows('[]')",
    'select drover.finish_copy(null, null, now(), null, null)',
    'delete from drover.session',
  ])('cannot %s', async (statement) => {
    await expect(app.query(statement)).rejects.toThrow(/permission denied/);
  });

  test('cannot be made to run its own functions in the name of the owner', async () => {
    // a temporary function of the same name must not come before the real one
    await app.query(`create function pg_temp.checked_job(job json, payload text) returns json language plpgsql as $$
      begin raise exception 'taken over by %', current_user; end $$`);
    await app.query(`create function pg_temp.length(text) returns int language plpgsql as $$
      begin raise exception 'taken over by %', current_user; end $$`);
    await app.query('set search_path = pg_temp, drover, public');
    expect(await rowOf(await enqueue('plain'))).toMatchObject({ state: 'ready' });
    await app.query('reset search_path');
  });
});
