/**
 * One corpus of jobs, run through the validator of the API and through drover.checked_job: both take a job, or both refuse it for
 * the same field; and a job that both take is stored as the same row.
 *
 * The corpus has no null as an option: the API refuses null, SQL takes it for absent, because SQL has no other way to leave out a
 * column's value. It has no \u0000 and no half of a surrogate pair either: PostgreSQL cannot read an object with one at all.
 */
import { DroverError, invalidInput, JOB_OPTION_NAMES, JOB_OPTIONS, newId, newJobSchema } from '@drover/protocol';
import fc from 'fast-check';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { insertJobs } from '../../src/admission/insert-jobs.js';
import { checkedJob } from '../../src/new-jobs/check-jobs.js';
import { keyedId } from '../../src/new-jobs/job-to-insert.js';
import type { KnownType } from '../../src/new-jobs/known-types.js';
import { createLifecycleBench, type LifecycleBench } from '../support/lifecycle.js';

let bench: LifecycleBench;
/** Each job is added by SQL in a transaction that is rolled back. */
let client: pg.PoolClient;
beforeAll(async () => {
  bench = await createLifecycleBench();
  client = await bench.pool.connect();
  await bench.pool.query('insert into drover.job_type (type, hash, defaults, defined_at) values ($1, $2, $3, now())', [
    ...[DEFINED.type, DEFINED.hash, JSON.stringify(DEFINED.defaults)],
  ]);
});
afterAll(async () => {
  client.release();
  await bench.close();
});

type Row = Record<string, unknown>;
/** Every field that is at fault, or the row. */
type Verdict = { fields: string[]; message: string } | { row: Row };

const ID = newId();
/** A type that workers have registered: its jobs get these defaults on both ways. */
const DEFINED: KnownType = {
  type: 'defined',
  hash: 'abc',
  defaults: {
    ...{
      queue: 'bank',
      priority: 7,
      maxAttempts: 1,
      timeout: 5000,
      retention: 60_000,
      tags: ['money'],
      onLost: 'hold',
    },
    ...{ onFailure: 'alarm', backoff: { kind: 'fixed', delay: 2000, jitter: 0.5 } },
  },
  payloadSchema: undefined,
};
const LIMITS = { payloadLimitBytes: 1024 * 1024, nowMs: Date.now(), types: new Map([[DEFINED.type, DEFINED]]) };
/** What is known of two rows that were added one after the other. */
const ROW_QUERY = `select to_jsonb(j) - '{id,order_key,created_at,run_at,expires_at,payload}'::text[]
    || jsonb_build_object('waits', extract(epoch from run_at - case when $2 then '1970-01-01Z' else created_at end),
      'expires', extract(epoch from expires_at), 'payload', payload::text, 'id', case when $3 then id end,
      -- the others are compared by their columns
      'options', options::jsonb - $4::text[]) as row
  from drover.job j where id = $1`;
const OPTIONS_WITH_COLUMN = JOB_OPTION_NAMES.filter((name) => JOB_OPTIONS[name].hasColumn);

/** The row of a job: its times are compared as such if they were given so, else as a span from its creation. */
async function rowOf(from: { query: pg.ClientBase['query'] }, job: unknown, id: string): Promise<Row> {
  const given = job as { runAt?: unknown; id?: unknown; idempotencyKey?: unknown };
  const isKnown = given.id !== undefined || given.idempotencyKey !== undefined;
  const values = [id, given.runAt !== undefined, isKnown, OPTIONS_WITH_COLUMN];
  const { rows } = await from.query(ROW_QUERY, values);
  const { row } = rows[0];
  return { ...row, options: row.options ?? {} };
}

/** A place in a list is left out: SQL names the list of tags, the API the tag. Both name the whole job in their own way. */
function fieldOf(name: string): string {
  return name.replace(/^\(body\)$|^$/, 'job').replace(/^tags\[\d+\]$/, 'tags');
}

async function byApi(text: string): Promise<Verdict> {
  const given: unknown = JSON.parse(text);
  try {
    const parsed = newJobSchema.safeParse(given);
    if (!parsed.success) throw invalidInput(parsed.error, given);
    const job = checkedJob(parsed.data, LIMITS);
    expect((await insertJobs(bench.db.bulk, [{ job }])).size).toBe(0);
    return { row: await rowOf(bench.pool as unknown as pg.ClientBase, given, job.id) };
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    const { issues = [], field } = (error.details ?? {}) as { issues?: { field: string }[]; field?: string };
    return {
      fields: [...issues.map((issue) => issue.field), ...(field ? [field] : [])].map(fieldOf),
      message: error.message,
    };
  }
}

async function bySql(text: string): Promise<Verdict> {
  await client.query('begin');
  try {
    const { rows } = await client.query(
      `select drover.checked_job($1, coalesce((case json_typeof($1) when 'object' then $1::json->'payload' end)::text, 'null')) as job`,
      [text],
    );
    const { job } = rows[0];
    await client.query('select drover.insert_job_rows(json_build_array($1::json))', [JSON.stringify(job)]);
    return { row: await rowOf(client, JSON.parse(text), job.id) };
  } catch (error) {
    const { message } = error as Error;
    const [, field] = /^drover: (?:([\w.[\]]+): )?\S/.exec(message) ?? [];
    if (!message.startsWith('drover: ')) throw error;
    return { fields: [fieldOf(field ?? '')], message };
  } finally {
    await client.query('rollback');
  }
}

/** Undefined if both mean the same. */
async function disagreement(text: string): Promise<object | undefined> {
  // by SQL first: what that adds is gone when the other comes
  const sql = await bySql(text);
  const api = await byApi(text);
  if ('row' in sql && 'row' in api) {
    expect(sql.row).toEqual(api.row);
    return undefined;
  }
  if ('fields' in sql && 'fields' in api && sql.fields.every((field) => api.fields.includes(field))) return undefined;
  return { job: text, api: 'row' in api ? 'taken' : api.message, sql: 'row' in sql ? 'taken' : sql.message };
}

const NAME = 'x'.repeat(128);
const TAG = 'y'.repeat(128);
const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));

/** Values of each option that are taken. */
const taken: Record<string, unknown[]> = {
  type: ['a', 'A-b_c.d:e/f@g', '_', '0', NAME],
  id: [
    '01890000-0000-7000-8000-000000000001',
    '01890000-0000-7000-8000-00000000000A',
    'FFFFFFFF-ffff-4fff-8fff-ffffffffffff',
  ],
  payload: [null, 0, 1.5, '', 'é🐑', [], {}, { a: [1, { b: null }] }, nested(1000)],
  queue: ['mail', 'default', NAME],
  priority: [0, 1, -1, 1000, -1000, 5.0],
  maxAttempts: [1, 10, 1000],
  timeout: [0, 1, 1.4, 1.5, 2.5, 0.5, '30s', ' 30s ', '\t10m\n', '1.5s', '0.0005s', '0ms', '3650d', 315_360_000_000],
  retention: ['3d', 1, '2h', '000000000001d'],
  delay: [0, '5s', 60_000, '0.25ms'],
  runAt: [
    '2035-01-31T12:00:00Z',
    '2035-01-31T12:00:00.5Z',
    '2035-01-31T12:00:00.123456789+05:30',
    '2035-01-31T12:00:00.9999999Z',
    '2035-01-31T12:00:00-11:59',
    '2036-02-29T23:59:59Z',
    '1970-01-01T00:00:00Z',
    '9999-12-31T23:59:59Z',
  ],
  expiresAt: ['2035-02-01T00:00:00Z', '2000-01-01T00:00:00.999999Z'],
  tags: [
    [],
    ['a'],
    ['a', 'a'],
    ['one two', 'zwei & drei', '"{,}\\', "'"],
    [TAG],
    ['🐑'.repeat(128)],
    Array(20).fill('z'),
    ['\u2028', 'é', '\u00a0'],
  ],
  onLost: ['rerun', 'hold'],
  onFailure: ['work/on-failure', NAME],
  idempotencyKey: ['order-4711', 'a', ' é "🐑" \\ {,}', '🐑'.repeat(255), '\u2028\u00a0', ID],
  backoff: [
    { kind: 'exponential' },
    { kind: 'exponential', base: '2s', factor: 1, max: 60_000, jitter: 0 },
    { kind: 'exponential', base: 0, factor: 10, max: '1h', jitter: 1 },
    { kind: 'exponential', factor: 1.1, jitter: 1e-7 },
    { kind: 'fixed', delay: '2s' },
    { kind: 'fixed', delay: 0, jitter: 0.5 },
    { kind: 'list', delays: ['1s'] },
    { kind: 'list', delays: [1, '2.5s', 0.5, 0], jitter: 0.3 },
    { kind: 'list', delays: Array(100).fill(1) },
  ],
};

/** Values of each option that are refused. */
const refused: Record<string, unknown[]> = {
  type: [undefined, '', ' ', 'two words', '-a', '.a', 'é', 'a\n', '\na', `${NAME}x`, 7, true, {}, ['a']],
  id: ['', 'abc', `${ID}0`, `{${ID}}`, ID.replaceAll('-', ''), 5, '0fffffff-ffff-7000-8000-000000000000', `${ID}\n`],
  payload: ['x'.repeat(1024 * 1024 - 1), 'é'.repeat(512 * 1024), nested(1001)],
  queue: ['', 'a b', '/a', 'a\t', '１', `${NAME}x`, 1, false, { a: 1 }, []],
  priority: [1001, -1001, 0.5, 1e300, -1e300, 99999999999999, '1', true, [1]],
  maxAttempts: [0, -1, 1001, 1.5, '1', false, {}],
  timeout: [
    'soon',
    '',
    's',
    '10',
    '1e3',
    '-1s',
    '1 s',
    '1S',
    '1.s',
    '.5s',
    '1.1234567s',
    '1234567890123s',
    '3651d',
    '١s',
    -1,
    315_360_000_001,
    1e300,
    true,
    [],
    {},
  ],
  retention: ['4000d', '1w', [1]],
  delay: ['5 minutes', -0.1, 'P1D'],
  runAt: [
    'tomorrow',
    '',
    '2030-01-31',
    '2030-01-31T12:00:00',
    '2030-01-31T12:00Z',
    '2030-01-31 12:00:00Z',
    '2030-01-31t12:00:00z',
    '2030-01-31T12:00:00.Z',
    '2030-01-31T12:00:00+01',
    '2030-01-31T12:00:00+0100',
    '2030-02-30T12:00:00Z',
    '2035-02-29T12:00:00Z',
    '2030-13-01T12:00:00Z',
    '2030-00-01T12:00:00Z',
    '2030-01-31T24:00:00Z',
    '2030-01-31T25:00:00Z',
    '2030-01-31T12:60:00Z',
    '2030-12-31T23:59:60Z',
    '2030-01-31T12:00:00+99:99',
    '2030-01-31T12:00:00+24:00',
    '1969-12-31T23:59:59Z',
    '1970-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '0000-01-01T00:00:00Z',
    '12030-01-31T12:00:00Z',
    ' 2030-01-31T12:00:00Z',
    'infinity',
    'now',
    5,
    true,
    {},
  ],
  expiresAt: ['', '0001-01-01T00:00:00Z', '2030-01-01', 0],
  tags: [
    'urgent',
    {},
    1,
    [''],
    [5],
    [null],
    [['a']],
    [`${TAG}y`],
    ['🐑'.repeat(129)],
    Array(21).fill('z'),
    ['two\nlines'],
    ['\u007f'],
    ['\u0085'],
    ['\u0001'],
  ],
  onLost: ['', 'keep', 'Hold', true, 1, ['hold']],
  onFailure: ['', 'a b', '/a', `${NAME}x`, 1, ['a']],
  idempotencyKey: ['', 'two\nlines', '\u007f', '🐑'.repeat(256), 4711, true, ['a'], {}],
  backoff: [
    'fast',
    1,
    [],
    true,
    {},
    { kind: 'random' },
    { kind: 5 },
    { kind: 'fixed' },
    { kind: 'fixed', delay: 'x' },
    { kind: 'fixed', delay: 1, base: 1 },
    { kind: 'fixed', delay: 1, jitter: 1.1 },
    { kind: 'list' },
    { kind: 'list', delays: [] },
    { kind: 'list', delays: 1 },
    { kind: 'list', delays: ['1s', 'x'] },
    { kind: 'list', delays: [1, null] },
    { kind: 'list', delays: Array(101).fill(1) },
    { kind: 'exponential', factor: 0.9 },
    { kind: 'exponential', factor: 10.1 },
    { kind: 'exponential', factor: '2' },
    { kind: 'exponential', jitter: 2 },
    { kind: 'exponential', jitter: -0.1 },
    { kind: 'exponential', base: 'x' },
    { kind: 'exponential', max: -1 },
    { kind: 'exponential', delay: 1 },
  ],
  // fields that a job does not have
  colour: ['red'],
  constructor: [1],
  ids: [[ID]],
  parentId: [ID],
  occurrence: [{}],
  expiresIn: [1],
  max_attempts: [3],
};

const casesOf = (values: Record<string, unknown[]>) =>
  Object.entries(values).flatMap(([field, list]) =>
    list.map((value) => [field, JSON.stringify({ type: 'work', [field]: value })] as const),
  );

const ALL = {
  ...{ type: 'all', queue: 'mail', priority: -5, maxAttempts: 3, timeout: '90s', retention: '3d', tags: ['a', 'b'] },
  ...{
    onLost: 'hold',
    onFailure: 'work/on-failure',
    idempotencyKey: 'all-of-them',
    runAt: '2035-01-31T12:00:00.500+02:00',
    expiresAt: '2035-02-01T00:00:00Z',
    payload: { to: 'Ada' },
  },
  backoff: { kind: 'fixed', delay: '2s', jitter: 0.5 },
};

/** Whole jobs, as text where an object cannot say it. */
const whole: (readonly [what: string, text: string])[] = [
  ['every option', JSON.stringify(ALL)],
  ['a defined type', '{"type":"defined","payload":1}'],
  ['a defined type and every option', JSON.stringify({ ...ALL, type: 'defined' })],
  ['a defined type and no tags', '{"type":"defined","tags":[],"delay":"5s"}'],
  ['a complete job of a defined type', '{"type":"defined","complete":true,"maxAttempts":3}'],
  ['an incomplete job of a defined type', '{"type":"defined","complete":false,"onLost":"rerun"}'],
  ['a wrong complete', '{"type":"a","complete":"yes"}'],
  ['delay and runAt', JSON.stringify({ type: 'a', delay: 1, runAt: '2035-01-31T12:00:00Z' })],
  ['an id and a key', JSON.stringify({ type: 'a', id: ID, idempotencyKey: 'order-4711' })],
  ['the id of its key', JSON.stringify({ type: 'a', id: keyedId('a', 'order-1'), idempotencyKey: 'order-1' })],
  ['no payload', '{"type":"a"}'],
  ['several mistakes', '{"type":"a b","priority":5000,"tags":"x"}'],
  ['an unknown field and another mistake', '{"type":"a b","colour":1}'],
  ['a field that comes twice', '{"type":"a","queue":"b c","queue":"d"}'],
  ['a number beyond all others', '{"type":"a","priority":1e400}'],
  ['a duration beyond all others', '{"type":"a","delay":1e400}'],
  ['a factor beyond all others', '{"type":"a","backoff":{"kind":"exponential","factor":-1e999}}'],
  ['a number of very many digits', `{"type":"a","maxAttempts":${'9'.repeat(400)}}`],
  ['a number with an exponent', '{"type":"a","maxAttempts":1e2,"priority":-1.5E+1,"timeout":25e-1}'],
  ['minus nothing', '{"type":"a","priority":-0,"delay":-0.0}'],
  ['a prototype', '{"type":"a","__proto__":{"queue":"b"}}'],
  ['nothing', '{}'],
  ['a list', '[]'],
  ['a job in a list', '[{"type":"a"}]'],
  ['null', 'null'],
  ['a number', '5'],
  ['a string', '"type"'],
];

describe('the validator of the API and that of SQL', () => {
  test('take the same options, and each has its cases here', async () => {
    const { rows } = await client.query('select drover.job_option_names() as names');
    expect(new Set(rows[0].names)).toEqual(new Set(JOB_OPTION_NAMES));
    expect(Object.keys(taken)).toEqual(expect.arrayContaining([...JOB_OPTION_NAMES]));
  });

  test.each(casesOf(taken))('both take this %s: %s', async (_, text) => {
    expect(await byApi(text.replace(/,"(?:id|idempotencyKey)":.*\}/s, '}'))).toHaveProperty('row');
    expect(await disagreement(text)).toBeUndefined();
  });

  test.each(casesOf(refused).map(([field, text]) => [field, text.slice(0, 200), text] as const))(
    'both refuse this %s: %s',
    async (_field, _shown, text) => {
      expect(await byApi(text)).toHaveProperty('fields');
      expect(await disagreement(text)).toBeUndefined();
    },
  );

  test.each(whole)('agree about a job with %s', async (_, text) => {
    expect(await disagreement(text)).toBeUndefined();
  });

  test('agree about jobs of any mixture of options', async () => {
    const { id, idempotencyKey, delay, ...others } = taken;
    const values = fc.constantFrom(
      ...Object.entries({ ...others, ...refused }).flatMap(([key, list]) => list.map((value) => [key, value] as const)),
    );
    const rights = Object.fromEntries(Object.entries(others).map(([key, list]) => [key, fc.constantFrom(...list)]));
    const jobs = fc
      .tuple(fc.record(rights, { requiredKeys: ['type'] }), fc.option(values, { freq: 2 }))
      .map(([job, wrong]) => {
        if (!wrong) return job;
        // with two mistakes each side may name another one, and a delay beside a time is one
        const { runAt, ...rest } = job as Row;
        return { ...(wrong[0] === 'delay' ? rest : job), [wrong[0]]: wrong[1] };
      })
      .map((job) => JSON.stringify(job));
    await fc.assert(
      fc.asyncProperty(jobs, async (text) => {
        expect(await disagreement(text)).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  });
});

/** Here they differ, and this is meant or accepted. */
describe('they differ', () => {
  test.each([
    ['null is absent for SQL', '{"type":"a","queue":null}', 'api'],
    // PostgreSQL knows offsets up to 15:59, and those of the world end at 14:00
    ['an offset that no place has', '{"type":"a","runAt":"2035-01-31T12:00:00+23:00"}', 'sql'],
  ])('about %s', async (_, text, refuses) => {
    const verdicts = { api: await byApi(text), sql: await bySql(text) };
    const [strict, lenient] = refuses === 'api' ? [verdicts.api, verdicts.sql] : [verdicts.sql, verdicts.api];
    expect(strict).toHaveProperty('fields');
    expect(lenient).toHaveProperty('row');
  });
});
