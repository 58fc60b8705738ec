/**
 * The list must stay quick when there are millions of rows. Timings depend on the machine, plans do not: with
 * this many rows PostgreSQL already decides as it does with ten million.
 */
import { createIdGenerator, type ListJobsQuery, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { listStatement } from '../../src/queries/list-jobs.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { makePastPartitions } from './job-rows.js';

const DAY_MS = 86_400_000;
/** The present of these tests: how much of today is in its partition must not depend on when they run. */
const NOON_MS = new Date().setUTCHours(12, 0, 0, 0);
const NOON = `timestamptz '${new Date(NOON_MS).toISOString()}'`;
const DAYS = 5;
const HOT_ROWS = 60_000;
const FINISHED_ROWS = 150_000;

const PARENT = '0193f2a0-5c1e-7d2b-9a55-000000000000';
/** SQL for the id of a parent. */
const parent = (last: string | number) => `('${PARENT.slice(0, -1)}' || (${last}))::uuid`;
const idOf = (ms: number) => createIdGenerator(() => ms)();

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = connectDatabase({ url: database.url, poolSize: 1 });
  await makePastPartitions(database.pool, DAYS + 1);
  // every seventh job has an idempotency key
  const id = `(case when n % 7 = 0 then 'ff' || substr(md5(n::text), 1, 30) else lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
    || '8' || substr(md5(n::text), 1, 15) end)::uuid`;
  const names = `case when n % 1000 = 0 then 'rare' else 'default' end, 'type' || n % 20,
    case when n % 100 = 9 then ${parent('n % 3')} when n % 10000 = 8 then ${parent(7)} end,
    case when n % 1000 = 11 then ${parent('n % 3')} end,
    case when n % 10 = 1 then 'hourly' when n % 10000 = 5 then 'yearly' end,
    case when n % 10000 = 7 then array['rare'] when n % 5 = 0 then array['common'] end`;
  await database.pool.query(`
    insert into drover.job_history (id, created_at, run_at, finished_at, fence, attempt, max_attempts, lost_attempts,
      priority, payload, state, queue, type, parent_id, run_id, schedule, tags)
    select ${id}, at, at, at + interval '1 s', 1, 1, 10, 0, 0, '{"name": "Ada"}',
      (case when n % 50 = 1 then 'failed' when n % 50 = 2 then 'cancelled' else 'succeeded' end)::drover.job_state, ${names}
    from (
      select n, ${NOON} - interval '${DAYS} days' + n * (interval '${DAYS} days' / ${FINISHED_ROWS}) as at
      from generate_series(1, ${FINISHED_ROWS - 1}) n
    ) numbered`);
  await database.pool.query(`
    insert into drover.job (id, created_at, run_at, max_attempts, payload, state, session_id, queue, type, parent_id, run_id, schedule, tags)
    select ${id}, at, at, 10, '{"name": "Ada"}',
      (case when n % 20 = 3 then 'scheduled' when n % 1000 = 7 then 'running' else 'ready' end)::drover.job_state,
      case when n % 20 <> 3 and n % 1000 = 7 then gen_random_uuid() end, ${names}
    from (
      select n, ${NOON} - interval '1 hour' + n * (interval '1 hour' / ${HOT_ROWS}) as at
      from generate_series(1, ${HOT_ROWS}) n
    ) numbered`);
  await database.pool.query('vacuum analyze drover.job');
  await database.pool.query('vacuum analyze drover.job_history');
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

type Scan = { node: string; table: string; rowsRead: number };

/** Each read of a job table that was really made, with the rows it had to look at. */
async function scansOf(filters: Partial<ListJobsQuery>, after?: string): Promise<Scan[]> {
  const { statement, values } = listStatement(filters as ListJobsQuery, { after, rows: 51, include: [] }, NOON_MS);
  if (!statement) return [];
  const explain = { name: '', text: `explain (analyze, format json) ${statement.text}` };
  const [row] = await db.reads.run<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(explain, values);
  const scans: Scan[] = [];
  if (row) collect(row['QUERY PLAN'][0].Plan, scans);
  return scans.filter(({ table, rowsRead }) => table.startsWith('job') && rowsRead > 0);
}

type PlanNode = {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
};

function collect(node: PlanNode, scans: Scan[]): void {
  const table = node['Relation Name'];
  if (table) {
    const rowsRead = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
    scans.push({ node: node['Node Type'], table, rowsRead });
  }
  for (const child of node.Plans ?? []) collect(child, scans);
}

const ago = (days: number) => new Date(NOON_MS - days * DAY_MS).toISOString();
const rowsRead = (scans: Scan[]) => scans.reduce((sum, scan) => sum + scan.rowsRead, 0);

describe('a page is read from an index and costs about a page', () => {
  const cases: [string, Partial<ListJobsQuery>][] = [
    ['no filter', {}],
    ['a queue', { queue: 'default' }],
    ['a type', { type: 'type3' }],
    ['a frequent tag', { tag: 'common' }],
    ['the parent of many', { parent: PARENT }],
    ['a schedule', { schedule: 'hourly' }],
    ['a schedule, failed', { schedule: 'hourly', state: ['failed'] }],
    ['the beginning of ids', { idPrefix: idOf(NOON_MS).slice(0, 8) }],
    ['ready', { state: ['ready'] }],
    ['scheduled', { state: ['scheduled'] }],
    ['running', { state: ['running'] }],
    ['unknown', { state: ['unknown'] }],
    ['blocked', { state: ['blocked'] }],
    ['succeeded', { state: ['succeeded'] }],
    ['failed', { state: ['failed'] }],
    ['failed or cancelled', { state: ['failed', 'cancelled'] }],
    ['running or succeeded', { state: ['running', 'succeeded'] }],
    ['a rare queue, ready', { queue: 'rare', state: ['ready'] }],
    ['a rare queue, finished', { queue: 'rare', state: ['succeeded', 'failed', 'cancelled'] }],
    ['a rare tag, failed', { tag: 'rare', state: ['failed'] }],
    ['created lately', { createdAfter: ago(0.01) }],
    ['finished lately', { finishedAfter: ago(0.01) }],
  ];
  test.each(cases)('%s', async (_what, filters) => {
    const scans = await scansOf(filters);
    expect(scans.filter(({ node }) => node === 'Seq Scan')).toEqual([]);
    expect(rowsRead(scans)).toBeLessThan(2500);
  });
});

describe('the history is never read as a whole', () => {
  const cases: [string, Partial<ListJobsQuery>][] = [
    ['a queue that is not there', { queue: 'none' }],
    ['a type that is not there', { type: 'none' }],
    ['a tag that is not there', { tag: 'none' }],
    ['a rare tag', { tag: 'rare' }],
    ['a parent of none', { parent: newId() }],
    ['a parent of few', { parent: PARENT.replace(/.$/, '7') }],
    ['a schedule that is not there', { schedule: 'none' }],
    ['a rare schedule', { schedule: 'yearly' }],
    ['a run', { run: PARENT }],
    ['a run of none', { run: newId() }],
    ['the beginning of no id', { idPrefix: 'abcdef' }],
    ['created before the oldest', { createdBefore: ago(DAYS + 2) }],
    ['finished before the oldest', { finishedBefore: ago(DAYS + 1) }],
    ['created in the future', { createdAfter: ago(-1) }],
  ];
  test.each(cases)('%s', async (_what, filters) => {
    const finished = (await scansOf(filters)).filter(({ table }) => table.startsWith('job_history'));
    expect(finished.filter(({ node }) => node === 'Seq Scan')).toEqual([]);
    expect(rowsRead(finished)).toBeLessThan(500);
  });

  test('a time in its middle costs at most the days around it', async () => {
    const aDay = FINISHED_ROWS / DAYS;
    const created = await scansOf({ createdAfter: ago(3), createdBefore: ago(2.9) });
    expect(rowsRead(created.filter(({ table }) => table !== 'job'))).toBeLessThan(2.5 * aDay);
    const finished = await scansOf({ finishedAfter: ago(3), finishedBefore: ago(2.9) });
    expect(rowsRead(finished)).toBeLessThan(2 * aDay);
    expect(new Set(finished.map(({ table }) => table)).size).toBeLessThanOrEqual(2);
  });

  test('a time shortly after midnight costs at most a page and the day before', async () => {
    const scans = await scansOf({ createdAfter: ago(0.5 - 0.01) });
    expect(rowsRead(scans)).toBeLessThan(FINISHED_ROWS / DAYS + 2500);
  });
});

test('tables that cannot have what is asked for are not read', async () => {
  const tables = async (filters: Partial<ListJobsQuery>) => new Set((await scansOf(filters)).map(({ table }) => table));
  expect(await tables({ state: ['ready', 'running'] })).toEqual(new Set(['job']));
  expect(await tables({ state: ['failed'] })).not.toContain('job');
  expect(await tables({ finishedAfter: ago(1) })).not.toContain('job');
  expect(await tables({ state: ['ready'], finishedAfter: ago(1) })).toEqual(new Set());
});

test('a page in the middle costs what the first one costs', async () => {
  const { rows } = await database.pool.query<{ id: string }>(
    'select id from drover.job_history order by id offset $1 limit 1',
    [FINISHED_ROWS / 2],
  );
  const scans = await scansOf({}, rows[0]?.id);
  expect(scans.filter(({ node }) => node === 'Seq Scan')).toEqual([]);
  expect(rowsRead(scans)).toBeLessThan(500);
});
