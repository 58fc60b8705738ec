import {
  ALL_STATES,
  createIdGenerator,
  DroverError,
  LIMITS,
  type ListJobsQuery,
  newId,
  type RouteAnswer,
} from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { listJobs } from '../../src/queries/list-jobs.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { writeUnguarded } from '../support/guard-moves.js';
import { insertJobRows, type MadeRow, makePastPartitions, toRow } from './job-rows.js';

const DAY_MS = 86_400_000;
let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = connectDatabase({ url: database.url, poolSize: 2 });
  await makePastPartitions(database.pool, 8);
});
beforeEach(() => database.pool.query('truncate drover.job, drover.job_history'));
afterAll(async () => {
  await db.close();
  await database.drop();
});

async function list(query: Partial<ListJobsQuery> = {}): Promise<RouteAnswer<'listJobs'>> {
  const { text } = await listJobs(db.reads, { limit: 50, ...query });
  return JSON.parse(String(text));
}

async function listAll(query: Partial<ListJobsQuery>): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await list({ ...query, ...(cursor && { cursor }) });
    ids.push(...page.items.map((job) => job.id));
    cursor = page.nextCursor ?? undefined;
  } while (cursor);
  return ids;
}

const PARENTS = [newId(), newId()] as const;

describe('filters', () => {
  const now = Date.now();
  const ago = (days: number) => new Date(now - days * DAY_MS);
  const times = [7, 5.5, 4, 2.2, 1, 0.5, 0].map(ago);
  /** An id of that moment, of a client whose clock is wrong by some hours, or of another kind altogether. */
  const idAt = (at: Date, kind: 'v7' | 'slow' | 'fast' | 'v4' | 'keyed') =>
    kind === 'v4' || kind === 'keyed'
      ? (kind === 'keyed' ? 'ff' : '') + crypto.randomUUID().slice(kind === 'keyed' ? 2 : 0)
      : createIdGenerator(() => at.getTime() + { v7: 0, slow: -5 * DAY_MS, fast: DAY_MS / 2 }[kind])();

  const rows = fc
    .record({
      state: fc.constantFrom(...ALL_STATES),
      queue: fc.constantFrom('a', 'b'),
      type: fc.constantFrom('x', 'y'),
      tags: fc.subarray(['red', 'green']),
      parentId: fc.constantFrom(null, ...PARENTS),
      schedule: fc.constantFrom(null, 'nightly', 'hourly'),
      runId: fc.constantFrom(null, ...PARENTS),
      createdAt: fc.constantFrom(...times),
      laterMs: fc.constantFrom(0, 1000, DAY_MS),
      kind: fc.constantFrom('v7', 'v7', 'slow', 'fast', 'v4', 'keyed'),
    })
    .map(({ kind, laterMs, ...row }) => {
      const finishedAt = new Date(Math.min(now, row.createdAt.getTime() + laterMs));
      return toRow({ ...row, id: idAt(row.createdAt, kind), finishedAt });
    });
  const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
  const time = maybe(fc.constantFrom(...times, ago(3), ago(-1)).map((at) => at.toISOString()));
  const filters = fc.record({
    state: maybe(fc.subarray(ALL_STATES, { minLength: 1 })),
    queue: maybe(fc.constantFrom('a', 'b', 'none')),
    type: maybe(fc.constantFrom('x')),
    tag: maybe(fc.constantFrom('red', 'none')),
    parent: maybe(fc.constantFrom(...PARENTS)),
    schedule: maybe(fc.constantFrom('nightly', 'none')),
    run: maybe(fc.constantFrom(...PARENTS)),
    createdAfter: time,
    createdBefore: time,
    finishedAfter: time,
    finishedBefore: time,
  });

  const fits = (row: MadeRow, filter: Partial<ListJobsQuery>) => {
    const isFrom = (at: Date, after: string | undefined) => after === undefined || at >= new Date(after);
    const isUntil = (at: Date, before: string | undefined) => before === undefined || at < new Date(before);
    if (filter.finishedAfter !== undefined || filter.finishedBefore !== undefined) {
      if (!row.finishedAt) return false;
      if (!isFrom(row.finishedAt, filter.finishedAfter) || !isUntil(row.finishedAt, filter.finishedBefore))
        return false;
    }
    return (
      (filter.state === undefined || filter.state.includes(row.state)) &&
      (filter.queue === undefined || filter.queue === row.queue) &&
      (filter.type === undefined || filter.type === row.type) &&
      (filter.tag === undefined || row.tags.includes(filter.tag)) &&
      (filter.parent === undefined || row.parentId === filter.parent) &&
      (filter.schedule === undefined || row.schedule === filter.schedule) &&
      (filter.run === undefined || row.runId === filter.run) &&
      isFrom(row.createdAt, filter.createdAfter) &&
      isUntil(row.createdAt, filter.createdBefore)
    );
  };

  /** An id with a key is where a UUIDv7 of the creation would be. */
  const placeOf = ({ id, createdAt }: MadeRow) => {
    if (!id.startsWith('ff')) return id;
    const time = createdAt.getTime().toString(16).padStart(12, '0');
    const rest = id.replaceAll('-', '').slice(13);
    return [time.slice(0, 8), time.slice(8), `7${rest.slice(0, 3)}`, rest.slice(3, 7), rest.slice(7)].join('-');
  };

  const inOrder = (rows: MadeRow[]) => rows.sort((a, b) => (placeOf(a) < placeOf(b) ? 1 : -1)).map(({ id }) => id);

  test('any combination of them, on pages of any size, gives the same as a check of every row, in order', async () => {
    const made = fc.sample(rows, 300);
    await insertJobRows(database.pool, made);
    await fc.assert(
      fc.asyncProperty(filters, fc.constantFrom(1, 7, 50, 1000), async (filter, limit) => {
        const expected = inOrder(made.filter((row) => fits(row, filter)));
        const small = limit === 1 ? expected.slice(0, 5) : expected;
        const given = limit === 1 ? await firstPages(filter, 5) : await listAll({ ...filter, limit });
        expect(given).toEqual(small);
      }),
      { numRuns: 150 },
    );
  });

  test('the beginning of an id gives those that begin with it, of both tables', async () => {
    const made = fc.sample(rows, 200);
    await insertJobRows(database.pool, made);
    for (const { id } of made.slice(0, 20)) {
      for (const length of [6, 8, 12, 18, 36]) {
        const idPrefix = id.slice(0, length);
        const expected = made.filter((row) => row.id.startsWith(idPrefix));
        expect(await listAll({ idPrefix })).toEqual(inOrder(expected));
      }
    }
  });

  async function firstPages(filter: Partial<ListJobsQuery>, pages: number): Promise<string[]> {
    const ids: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < pages && (page === 0 || cursor); page++) {
      const { items, nextCursor } = await list({ ...filter, limit: 1, ...(cursor && { cursor }) });
      ids.push(...items.map((job) => job.id));
      cursor = nextCursor ?? undefined;
    }
    return ids;
  }
});

describe('paging', () => {
  test('shows every job once while others are added and finish', async () => {
    const old = Array.from({ length: 60 }, (_, n) => toRow({ state: n % 2 ? 'ready' : 'succeeded' }));
    await insertJobRows(database.pool, old);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await list({ limit: 7, ...(cursor && { cursor }) });
      seen.push(...page.items.map((job) => job.id));
      cursor = page.nextCursor ?? undefined;
      await insertJobRows(database.pool, [toRow({ state: 'ready' }), toRow({ state: 'failed' })]);
      // two of those that are waiting finish, perhaps one that was shown and one that was not
      await writeUnguarded(
        database.pool,
        `
        with gone as (
          delete from drover.job where id in (select id from drover.job order by random() limit 2) returning *
        )
        insert into drover.job_history (id, state, queue, type, created_at, run_at, finished_at,
          fence, attempt, max_attempts, lost_attempts, priority, payload)
        select id, 'succeeded', queue, type, created_at, run_at, now(), 1, 1, 10, 0, 0, payload from gone`,
      );
    } while (cursor);
    expect(new Set(seen).size).toBe(seen.length);
    for (const { id } of old) expect(seen).toContain(id);
  });

  test('ends a page at its bytes, with at least one job, and continues', async () => {
    const rows = Array.from({ length: 8 }, () => toRow({ state: 'ready' }));
    await insertJobRows(database.pool, rows);
    const payload = JSON.stringify('x'.repeat(LIMITS.pageBytes / 2));
    await database.pool.query('update drover.job set payload = $1', [payload]);
    const ids = rows.map(({ id }) => id).sort();
    const page = await list({ include: ['payload'] });
    expect(page.items.map(({ id }) => id)).toEqual(ids.slice(-2).reverse());
    expect(await listAll({ include: ['payload'], limit: 1000 })).toEqual(ids.toReversed());
    expect((await list()).items).toHaveLength(8);
    expect((await list({ include: ['payload'], limit: 1 })).nextCursor).not.toBeNull();
  });

  test('ends without an empty page', async () => {
    await insertJobRows(
      database.pool,
      Array.from({ length: 10 }, () => toRow({ state: 'ready' })),
    );
    const { items, nextCursor } = await list({ limit: 10 });
    expect([items.length, nextCursor]).toEqual([10, null]);
  });
});

describe('a cursor', () => {
  const cursorOf = async (query: Partial<ListJobsQuery>) => {
    await insertJobRows(
      database.pool,
      Array.from({ length: 3 }, () => toRow({ state: 'ready', queue: 'a' })),
    );
    return (await list({ ...query, limit: 1 })).nextCursor as string;
  };
  const refused = (query: Partial<ListJobsQuery>) =>
    list(query).then(
      () => 'taken',
      (error: DroverError) => error.code,
    );

  test('continues with the same filters and any limit, with the states in any order', async () => {
    const cursor = await cursorOf({ queue: 'a', state: ['ready', 'failed'] });
    expect((await list({ queue: 'a', state: ['failed', 'ready'], limit: 50, cursor })).items).toHaveLength(2);
  });

  test('of another list is refused', async () => {
    const cursor = await cursorOf({ queue: 'a' });
    expect(await refused({ cursor })).toBe('invalid_cursor');
    expect(await refused({ queue: 'b', cursor })).toBe('invalid_cursor');
    expect(await refused({ queue: 'a', state: ['ready'], cursor })).toBe('invalid_cursor');
  });

  test('that was changed or made up is refused', async () => {
    const cursor = await cursorOf({});
    const changed = `${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`;
    for (const wrong of ['', 'x', changed, cursor.slice(1), `${cursor}AAAA`, newId(), '%%%', 'null']) {
      expect([wrong, await refused({ cursor: wrong })]).toEqual([wrong, 'invalid_cursor']);
    }
  });

  test('is refused as an error of the table', async () => {
    await expect(list({ cursor: 'x' })).rejects.toBeInstanceOf(DroverError);
  });
});
