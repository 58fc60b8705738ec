/** A batch whose payloads are passed on unread: it must mean what reading all of it would. */
import { readFile } from 'node:fs/promises';
import { newId, newJobSchema } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBatchLines, readJobLine } from '../../src/api/batch-lines.js';
import type { UnreadJson } from '../../src/lifecycle/unread-json.js';
import { type ApiBench, createApiBench, errorOf } from './api-bench.js';

type Line = { id: string; head: Record<string, unknown>; payload: string };

const line = ({ id, head, payload }: Line) =>
  `{"id":"${id}",${JSON.stringify(head).slice(1, -1)},"payload":${payload}}`;
const bodyOf = (lines: readonly string[], end = ']}') => `{"jobs":[\n${lines.join(',\n')}\n${end}`;

const heads = fc.record(
  {
    type: fc.constantFrom('a', 'b.c', 'payload'),
    queue: fc.constantFrom('q', 'mail'),
    delay: fc.constantFrom('5s', 10),
    tags: fc.constantFrom(['x'], [',"payload":', '{"id":"'], ['x y', 'é']),
    backoff: fc.constant({ kind: 'fixed', delay: '1s' }),
  },
  { requiredKeys: ['type'] },
);
const lines = fc.record({
  id: fc.uuid(),
  head: heads,
  payload: fc.oneof(
    fc.json(),
    fc.constantFrom('{"a": [1, 2]}', '1e400', '"\\u0000\\ud800"', '{"a":1,"a":2}', '[{"payload":1}]'),
  ),
});
/** Something that may come into a body, or go from it, by mistake or by malice. */
const damage = fc.record({
  at: fc.nat(),
  removed: fc.integer({ min: 0, max: 3 }),
  added: fc.constantFrom(
    '',
    '{',
    '}',
    '},',
    '[',
    ']',
    '"',
    ',',
    '\n',
    '},\n{',
    '\\',
    ' ',
    '\t',
    '1,2',
    ',"queue":"z"',
    'x',
  ),
});

/** A text with these faults. */
function damaged(text: string, faults: readonly { at: number; removed: number; added: string }[]): string {
  return faults.reduce((left, { at, removed, added }) => {
    const place = at % (left.length + 1);
    return left.slice(0, place) + added + left.slice(place + removed);
  }, text);
}

/** As the server reads a batch in full; undefined if it would refuse it. */
function readInFull(text: string): unknown {
  try {
    const { jobs, answer } = JSON.parse(text) as { jobs: unknown[]; answer?: string };
    return { jobs: jobs.map((job) => newJobSchema.parse(job)), answer };
  } catch {
    return undefined;
  }
}

/** As it is read in lines; undefined if that is left to reading it in full. */
function readInLines(text: string): unknown {
  const batch = readBatchLines(text);
  if (!batch) return undefined;
  try {
    const jobs = batch.jobs.map((job) => ({ ...job, payload: (job.payload as UnreadJson).toJSON() }));
    return { jobs, answer: batch.answer };
  } catch {
    return undefined;
  }
}

describe('reading', () => {
  test('what an SDK writes is read in lines, and means the same', () => {
    fc.assert(
      fc.property(
        fc.array(lines, { minLength: 1, maxLength: 5 }),
        fc.constantFrom(']}', '],"answer":"existing"}'),
        (jobs, end) => {
          const text = bodyOf(jobs.map(line), end);
          const inLines = readInLines(text);
          expect(inLines).toBeDefined();
          expect(inLines).toEqual(readInFull(text));
        },
      ),
      { numRuns: 1000 },
    );
  });

  test('whatever else comes is left to reading it in full, or means the same', () => {
    let same = 0;
    fc.assert(
      fc.property(
        fc.array(lines, { minLength: 1, maxLength: 3 }),
        fc.array(damage, { minLength: 1, maxLength: 3 }),
        (jobs, faults) => {
          const text = damaged(bodyOf(jobs.map(line)), faults);
          const inLines = readInLines(text);
          if (inLines === undefined) return;
          expect(inLines).toEqual(readInFull(text));
          same += 1;
        },
      ),
      { numRuns: 20_000 },
    );
    expect(same).toBeGreaterThan(100);
  });

  test('a job that comes alone means what reading it in full would, or is left to that', () => {
    const inFull = (text: string): unknown => {
      try {
        return newJobSchema.parse(JSON.parse(text));
      } catch {
        return undefined;
      }
    };
    const unread = (text: string): unknown => {
      const job = readJobLine(text);
      try {
        return job && { ...job, payload: (job.payload as UnreadJson).toJSON() };
      } catch {
        return undefined;
      }
    };
    let same = 0;
    fc.assert(
      fc.property(lines, fc.array(damage, { maxLength: 2 }), (job, faults) => {
        const text = damaged(line(job), faults);
        const read = unread(text);
        if (faults.length === 0) expect(read).toBeDefined();
        if (read === undefined) return;
        expect(read).toEqual(inFull(text));
        same += 1;
      }),
      { numRuns: 20_000 },
    );
    expect(same).toBeGreaterThan(1000);
    expect(readJobLine('')).toBeUndefined();
    for (const end of [',', ',\n', '\n', ',\n\n']) {
      expect(readJobLine(`${line({ id: newId(), head: { type: 'a' }, payload: '1' })}${end}`)).toBeUndefined();
    }
  });

  test.each([
    ['another order', bodyOf([`{"type":"a","id":"${newId()}","payload":1}`])],
    ['an id in capitals', bodyOf([line({ id: newId().toUpperCase(), head: { type: 'a' }, payload: '1' })])],
    ['no payload', bodyOf([`{"id":"${newId()}","type":"a"}`])],
    ['something after the payload', bodyOf([line({ id: newId(), head: { type: 'a' }, payload: '{},"tags":["a"]' })])],
    ['two payloads', bodyOf([line({ id: newId(), head: { payload: 1, type: 'a' }, payload: '2' })])],
    ['a tab', bodyOf([line({ id: newId(), head: { type: 'a' }, payload: '[1,\t2]' })])],
    ['a job over two lines', bodyOf([line({ id: newId(), head: { type: 'a' }, payload: '{}' }).replace('}', '\n}')])],
    ['nothing in it', '{"jobs":[\n]}'],
    ['an empty line', '{"jobs":[\n\n]}'],
    ['a comma after the last job', bodyOf([line({ id: newId(), head: { type: 'a' }, payload: '1' }), ''])],
    ['a wrong option', bodyOf([line({ id: newId(), head: { type: 'a', delay: 'soon' }, payload: '1' })])],
  ])('a body with %s is left to reading it in full', (_, text) => {
    expect(readBatchLines(text)).toBeUndefined();
  });

  test('what the documentation shows is read in lines', async () => {
    const api = await readFile(new URL('../../../../docs/reference/api.md', import.meta.url), 'utf8');
    const [, shown] = /```text\n(\{"jobs":\[\n.*?)\n```/s.exec(api) ?? [];
    expect(readBatchLines(shown as string)?.jobs).toHaveLength(2);
  });

  test('more jobs than a batch may have are left to reading them in full, which says so', () => {
    const many = Array.from({ length: 10_001 }, () => line({ id: newId(), head: { type: 'a' }, payload: '1' }));
    expect(readBatchLines(bodyOf(many))).toBeUndefined();
    expect(readBatchLines(bodyOf(many.slice(1)))?.jobs).toHaveLength(10_000);
  });
});

describe('a server', () => {
  let api: ApiBench;
  beforeAll(async () => {
    api = await createApiBench({ payloadLimitBytes: 10_000 });
  });
  afterAll(() => api.close());

  const BATCH = '/api/v1/jobs/batch';
  const post = (body: string) => api.call(BATCH, { method: 'POST', body });
  const jobLine = (payload: string, id = newId()) => line({ id, head: { type: 'a' }, payload });
  /** So many that they are copied. */
  const MANY = 20;
  const good = (count: number) => Array.from({ length: count }, (_, index) => jobLine(`{"index":${index}}`));
  const stored = async () => {
    const { rows } = await api.database.pool.query('select count(*)::int as count from drover.job');
    return (rows as [{ count: number }])[0].count;
  };

  test('keeps payloads as they were written', async () => {
    const payloads = [
      '{"a": [1, 2]}',
      '"\\\\N \\t \\u0000 \\ud800 é🐑"',
      '123456789012345678901234567890',
      'null',
      '{"a":1,"a":2}',
    ];
    const jobs = Array.from({ length: MANY }, (_, index) => ({
      id: newId(),
      payload: payloads[index % payloads.length] as string,
    }));
    const answer = await post(bodyOf(jobs.map(({ id, payload }) => jobLine(payload, id))));
    expect(answer.body).toEqual({ items: jobs.map(({ id }) => ({ id, created: true })) });
    const { rows } = await api.database.pool.query(
      'select id, payload::text as payload from drover.job where id = any($1) order by order_key',
      [jobs.map(({ id }) => id)],
    );
    expect(rows).toEqual(jobs);
  });

  test.each([
    ['few', 3],
    ['many', MANY],
  ])('takes a job of %s that has something after its payload', async (_, count) => {
    const id = newId();
    const answer = await post(
      bodyOf([...good(count), jobLine('{"a":1},"queue":"later"', id)], '],"answer":"existing"}'),
    );
    expect(answer).toMatchObject({ status: 201, body: { items: [] } });
    expect((await api.call(`/api/v1/jobs/${id}`)).body).toMatchObject({ queue: 'later', payload: { a: 1 } });
  });

  test.each([
    ['few', 'two values for one', 3, '1,2'],
    ['many', 'two values for one', MANY, '1,2'],
    ['few', 'a value that ends the list', 3, '1],[2'],
    ['many', 'a word', MANY, 'nothing'],
    ['many', 'half an object', MANY, '{"a":'],
    ['many', 'a long text that does not end', MANY, `"${'x'.repeat(5000)}`],
    ['many', 'nothing', MANY, ''],
  ])('refuses %s jobs of which one has %s for a payload, and adds none', async (_few, _what, count, payload) => {
    const before = await stored();
    const others = Array.from({ length: 5 }, () => post(bodyOf(good(MANY))));
    const answer = await post(bodyOf([...good(count), jobLine(payload)]));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: 'invalid_json', message: expect.stringContaining('not valid JSON') });
    for (const other of await Promise.all(others)) expect(other.status).toBe(201);
    expect(await stored()).toBe(before + 5 * MANY);
  });

  test('says which payload is too large or too deep', async () => {
    const large = await post(bodyOf([...good(2), jobLine(`"${'é'.repeat(5000)}"`)]));
    expect(large.status).toBe(413);
    expect(errorOf(large).message).toBe('jobs[2].payload: expected at most 10000 bytes of JSON, got 10002');
    expect((await post(bodyOf([...good(2), jobLine(`"${'é'.repeat(4999)}"`)]))).status).toBe(201);
    const deep = await post(bodyOf([...good(2), jobLine('['.repeat(1001) + ']'.repeat(1001))]));
    expect(deep.status).toBe(400);
    expect(errorOf(deep).message).toContain('jobs[2].payload: expected JSON of at most 1000 levels');
    expect((await post(bodyOf([...good(2), jobLine('['.repeat(1000) + ']'.repeat(1000))]))).status).toBe(201);
  });

  test.each([
    ['spaces', `[1,${' '.repeat(20_000)}2]`, '[1,2]'],
    ['a key that comes twice', `{"a":"${'x'.repeat(20_000)}","a":1}`, '{"a":1}'],
    ['escapes', `"${'\\u0061'.repeat(1500)}"`, `"${'a'.repeat(1500)}"`],
    ['depth that does not count', `{"a":${'['.repeat(1500)}${']'.repeat(1500)},"a":1}`, '{"a":1}'],
  ])('stores what it has checked: not a long payload with %s', async (_, payload, kept) => {
    const id = newId();
    expect((await post(bodyOf([...good(2), jobLine(payload, id)]))).status).toBe(201);
    const { rows } = await api.database.pool.query('select payload::text as payload from drover.job where id = $1', [
      id,
    ]);
    expect(rows).toEqual([{ payload: kept }]);
  });

  describe('that gets a job alone', () => {
    const postOne = (body: string) => api.call('/api/v1/jobs', { method: 'POST', body });
    const payloadOf = async (id: string) => {
      const { rows } = await api.database.pool.query('select payload::text from drover.job where id = $1', [id]);
      return rows[0]?.payload as string | undefined;
    };
    // from the second on, the lane is known and the job is a plain insert
    beforeAll(() => postOne(jobLine('1')));

    test.each([
      ['as it was written', '{"a": [1, 2],"a":1e3}', '{"a": [1, 2],"a":1e3}'],
      ['with its escapes', '"\\u0000 \\ud800 é🐑"', '"\\u0000 \\ud800 é🐑"'],
      ['as it was checked, if it is long', `[1,${' '.repeat(20_000)}2]`, '[1,2]'],
      ['without what does not count, if it is long', `{"a":"${'x'.repeat(20_000)}","a":1}`, '{"a":1}'],
    ])('keeps its payload %s', async (_, payload, kept) => {
      const id = newId();
      const answer = await postOne(jobLine(payload, id));
      expect(answer).toMatchObject({ status: 201, body: { id, created: true } });
      expect(await payloadOf(id)).toBe(kept);
      expect((await postOne(jobLine(payload, id))).body).toEqual({ id, created: false });
    });

    test('takes what stands after the payload for what it is', async () => {
      const id = newId();
      expect((await postOne(jobLine('{"a":1},"queue":"later"', id))).status).toBe(201);
      expect((await api.call(`/api/v1/jobs/${id}`)).body).toMatchObject({ queue: 'later', payload: { a: 1 } });
    });

    test.each([
      ['two values', '1,2', 400, 'invalid_json'],
      ['a word', 'nothing', 400, 'invalid_json'],
      ['half an object', '{"a":', 400, 'invalid_json'],
      ['nothing', '', 400, 'invalid_json'],
      ['too many bytes', `"${'é'.repeat(5000)}"`, 413, 'payload_too_large'],
      ['too many levels', '['.repeat(1001) + ']'.repeat(1001), 400, 'invalid_request'],
    ])('refuses one with %s for a payload', async (_, payload, status, code) => {
      const before = await stored();
      const answer = await postOne(jobLine(payload));
      expect(answer.status).toBe(status);
      expect(errorOf(answer).code).toBe(code);
      expect(await stored()).toBe(before);
    });

    test('takes good ones beside bad ones', async () => {
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, index) => postOne(jobLine(index % 3 === 0 ? '1,2' : '{"a":1}'))),
      );
      expect(answers.map(({ status }) => status)).toEqual(
        Array.from({ length: 30 }, (_, index) => (index % 3 === 0 ? 400 : 201)),
      );
    });
  });

  test('relies on PostgreSQL to take nothing for JSON that is none', async () => {
    const { pool } = api.database;
    await pool.query(`create function takes(given text) returns boolean language plpgsql as $$
      begin perform given::json; return true; exception when others then return false; end $$`);
    const texts = fc.sample(
      fc.tuple(fc.json(), fc.array(damage, { maxLength: 2 })).map(([json, faults]) => damaged(json, faults)),
      5000,
    );
    const odd = [
      '01',
      '-',
      '1.',
      '.5',
      '1e',
      '+1',
      'NaN',
      'Infinity',
      'nul',
      'truex',
      "'a'",
      '"\u0001"',
      '"\\x"',
      '"\\u12"',
      '[1,]',
      '{"a":1,}',
      '{a:1}',
      '/**/1',
      '\ufeff1',
      '\u00a01',
      '1\u2028',
      '"\u007f"',
    ];
    const all = [...odd, ...texts].filter((text) => !/[\0\ud800-\udfff]/.test(text));
    const { rows } = await pool.query('select text, takes(text) as taken from unnest($1::text[]) text', [all]);
    const taken = (rows as { text: string; taken: boolean }[]).filter((row) => row.taken).map(({ text }) => text);
    expect(taken.length).toBeGreaterThan(1000);
    expect(taken.length).toBeLessThan(all.length - 1000);
    for (const text of taken) expect(() => JSON.parse(text), text).not.toThrow();
  });
});
