/** POST /jobs/bulk: payloads that servers do not parse must mean what parsing them would. */
import { readFile } from 'node:fs/promises';
import { type BulkJob, LIMITS, newId, writeBulk } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type ApiBench, createApiBench, errorOf } from './api-bench.js';

const PAYLOAD_LIMIT = 10_000;
/** So many that they are copied. */
const MANY = 20;

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench({ payloadLimitBytes: PAYLOAD_LIMIT });
});
afterAll(() => api.close());

const BULK = '/api/v1/jobs/bulk';
const post = (body: string | Buffer, type = 'application/x-ndjson') =>
  api.call(BULK, { method: 'POST', body, headers: { 'content-type': type } });

const jobOf = (payload: string, id = newId(), head = '"type":"a"'): BulkJob => ({ id, head, payload });
const good = (count: number) => Array.from({ length: count }, (_, index) => jobOf(`{"index":${index}}`));
const add = (...jobs: BulkJob[]) => post(writeBulk(jobs));

async function stored(): Promise<number> {
  const { rows } = await api.database.pool.query('select count(*)::int as count from drover.job');
  return rows[0].count;
}

async function payloadsOf(jobs: readonly BulkJob[]): Promise<string[]> {
  const { rows } = await api.database.pool.query(
    'select payload::text from drover.job where id = any($1) order by order_key',
    [jobs.map(({ id }) => id)],
  );
  return rows.map(({ payload }) => payload);
}

/** A refusal that names the places of these payloads, and adds nothing. */
async function expectRefusal(answer: Promise<Answer>, ...places: number[]): Promise<void> {
  const before = await stored();
  const refused = await answer;
  expect(refused.status).toBe(400);
  const fields = places.map((place) => `jobs[${place}].payload`);
  expect(errorOf(refused)).toMatchObject({
    code: 'invalid_request',
    message: expect.stringMatching(new RegExp(`^jobs\\[${places[0]}\\]\\.payload: not valid JSON: `)),
    details: { issues: fields.map((field) => ({ field, message: expect.stringMatching(/^not valid JSON: /) })) },
  });
  expect(await stored()).toBe(before);
}

describe('jobs', () => {
  test('of mixed heads are added with their options', async () => {
    const [first, second, third] = [newId(), newId(), newId()];
    const answer = await post(
      [
        `{"type":"mail","queue":"vip","priority":5,"timeout":"30s","tags":["a","b"],"ids":["${first}","${second}"]}`,
        '{"to":"Ada"}',
        '{"to":"Grace"}',
        `{"type":"report","delay":"1h","ids":["${third}"]}`,
        'null',
        '',
      ].join('\n'),
    );
    expect(answer).toMatchObject({ status: 201, body: { existed: [] } });
    const shared = { type: 'mail', queue: 'vip', priority: 5, timeout: 30_000, tags: ['a', 'b'], state: 'ready' };
    expect((await api.call(`/api/v1/jobs/${first}`)).body).toMatchObject({ ...shared, payload: { to: 'Ada' } });
    expect((await api.call(`/api/v1/jobs/${second}`)).body).toMatchObject({ ...shared, payload: { to: 'Grace' } });
    expect((await api.call(`/api/v1/jobs/${third}`)).body).toMatchObject({
      ...{ type: 'report', queue: 'default', state: 'scheduled', payload: null },
    });
  });

  test.each([
    ['few', 3],
    ['many', MANY],
  ])('that existed, finished or not, are named by their places among %s', async (_, count) => {
    const [ready, finished, twice] = [jobOf('1'), jobOf('2'), jobOf('3')];
    expect((await add(ready, finished)).body).toMatchObject({ existed: [] });
    await api.call(`/api/v1/jobs/${finished.id}/cancel`, { method: 'POST' });
    const others = good(count);
    const answer = await add(ready, twice, ...others, { ...finished, id: finished.id.toUpperCase() }, twice);
    expect(answer).toMatchObject({ status: 201, body: { existed: [0, count + 2, count + 3] } });
    expect((await api.call(`/api/v1/jobs/${finished.id}`)).body).toMatchObject({ state: 'cancelled', payload: 2 });
    expect(await payloadsOf([ready, twice, ...others])).toHaveLength(count + 2);
  });

  test('are none: nothing is added', async () => {
    expect(await post('')).toMatchObject({ status: 201, body: { existed: [] } });
  });

  test('as the documentation shows them are added', async () => {
    const page = await readFile(new URL('../../../../docs/reference/api.md', import.meta.url), 'utf8');
    const [, shown] = /<<'JOBS'\n(.*?)\nJOBS\n/s.exec(page) ?? [];
    expect(await post(shown as string)).toMatchObject({ status: 201, body: { existed: [] } });
    expect((await post(shown as string)).body).toMatchObject({ existed: [0, 1] });
  });
});

describe('a payload', () => {
  const PAYLOADS = [
    '{"a": [1, 2]}',
    '[1,\t2]',
    '{"a":1}\r',
    ' 1 ',
    '"\\\\N \\t \\u0000 \\ud800 é🐑\u2028\u0085"',
    '"\\n\\r\\\\."',
    '123456789012345678901234567890',
    '1e400',
    'null',
    '{"a":1,"a":2}',
    '{"__proto__":{"a":1}}',
    '"},{"',
    '{"type":"b","ids":[]}',
  ];

  test.each([
    ['few', 1],
    ['many', 2],
  ])('among %s is stored as it was sent', async (_, times) => {
    const jobs = Array.from({ length: times }, () => PAYLOADS).flatMap((payloads) =>
      payloads.map((payload) => jobOf(payload)),
    );
    expect((await add(...jobs)).body).toMatchObject({ existed: [] });
    expect(await payloadsOf(jobs)).toEqual(jobs.map(({ payload }) => payload));
  });

  test.each([
    ['few', 'two values', 3, '1,2'],
    ['many', 'two values', MANY, '1,2'],
    ['few', 'two values without a comma', 3, '1 2'],
    ['many', 'two values without a comma', MANY, '1\t2'],
    ['few', 'a value that ends a list', 3, '1],[2'],
    ['many', 'a word', MANY, 'nothing'],
    ['many', 'half an object', MANY, '{"a":'],
    ['many', 'a string that does not end', MANY, `"${'x'.repeat(5000)}`],
    ['few', 'white space', 3, ' '],
    ['many', 'white space', MANY, '\t\r'],
    ['few', 'a raw control character', 3, '"a\u0001b"'],
    ['few', 'a raw null character', 3, '"a\u0000b"'],
    ['many', 'a raw null character', MANY, '"a\u0000b"'],
    ['few', 'a wrong escape', 3, '"\\x"'],
    ['many', 'the end of the data of a COPY', MANY, '\\.'],
    ['many', 'the null of a COPY', MANY, '\\N'],
  ])('of one of %s that is %s is refused with its place, and none is added', async (_few, _what, count, payload) => {
    const others = Array.from({ length: 5 }, () => add(...good(MANY)));
    await Promise.all(others);
    await expectRefusal(add(...good(count), jobOf(payload), jobOf('1')), count);
  });

  test('that is refused beside others that come at the same time fails alone', async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) => add(jobOf(index % 3 === 0 ? '1,2' : '{"a":1}'))),
    );
    expect(answers.map(({ status }) => status)).toEqual(
      Array.from({ length: 30 }, (_, index) => (index % 3 === 0 ? 400 : 201)),
    );
  });

  test('that is missing is refused with its place', async () => {
    const before = await stored();
    const answer = await post(`{"type":"a","ids":["${newId()}","${newId()}"]}\n1\n\n2`);
    expect(errorOf(answer)).toMatchObject({
      code: 'invalid_request',
      message: 'jobs[1].payload: expected a line of JSON text for each id of its head line',
    });
    expect(await stored()).toBe(before);
  });

  test('of the limit is taken, and one byte more is refused with its place', async () => {
    const job = jobOf(`"${'é'.repeat(PAYLOAD_LIMIT / 2 - 1)}"`);
    expect((await add(...good(2), job)).status).toBe(201);
    expect(await payloadsOf([job])).toEqual([job.payload]);
    const large = await add(...good(2), jobOf(`${job.payload} `));
    expect(large.status).toBe(413);
    expect(errorOf(large)).toMatchObject({
      code: 'payload_too_large',
      message: 'jobs[2].payload: expected at most 10000 bytes of JSON, got 10001',
      details: { field: 'jobs[2].payload', limit: 10_000, bytes: 10_001 },
    });
  });

  test('of a thousand levels is taken, and one of more is refused with its place', async () => {
    const nested = (levels: number) => jobOf('['.repeat(levels) + ']'.repeat(levels));
    const job = nested(LIMITS.payloadDepth);
    expect((await add(...good(2), job)).status).toBe(201);
    expect((await api.call(`/api/v1/jobs/${job.id}`)).text).toContain(job.payload);
    const deep = await add(...good(2), nested(LIMITS.payloadDepth + 1));
    expect(deep.status).toBe(400);
    expect(errorOf(deep).message).toBe('jobs[2].payload: expected JSON of at most 1000 levels');
  });

  test('counts as JSON for PostgreSQL only if it does for JavaScript', async () => {
    const { pool } = api.database;
    await pool.query(`create function public.takes(given text) returns boolean language plpgsql as $$
      begin perform given::json; return true; exception when others then return false; end $$`);
    const texts = fc.sample(
      fc.tuple(fc.json(), fc.array(damage, { maxLength: 2 })).map(([json, faults]) => damaged(json, faults)),
      5000,
    );
    const all = [...ODD, ...texts].filter((text) => !/[\0\ud800-\udfff]/.test(text));
    const { rows } = await pool.query('select text, public.takes(text) as taken from unnest($1::text[]) text', [all]);
    const taken = (rows as { text: string; taken: boolean }[]).filter((row) => row.taken).map(({ text }) => text);
    expect(taken.length).toBeGreaterThan(1000);
    for (const text of taken) expect(() => JSON.parse(text), text).not.toThrow();
  });
});

/** Something that may come into a text, or go from it, by mistake or by malice. */
const damage = fc.record({
  at: fc.nat(),
  removed: fc.integer({ min: 0, max: 3 }),
  added: fc.constantFrom('', '{', '}', '},', '[', ']', '"', ',', '\\', ' ', '\t', '1,2', ',"queue":"z"', 'x'),
});

/** A text with these faults. */
function damaged(text: string, faults: readonly { at: number; removed: number; added: string }[]): string {
  return faults.reduce((left, { at, removed, added }) => {
    const place = at % (left.length + 1);
    return left.slice(0, place) + added + left.slice(place + removed);
  }, text);
}

const ODD = [
  ...['01', '-', '1.', '.5', '1e', '+1', 'NaN', 'Infinity', 'nul', 'truex', "'a'", '"\u0001"', '"\\x"', '"\\u12"'],
  ...['[1,]', '{"a":1,}', '{a:1}', '/**/1', '\ufeff1', '\u00a01', '1\u2028', '"\u007f"', '1\v', '1\f'],
];

describe('a request', () => {
  test.each([['application/json'], ['text/plain'], [''], [';;=']])('of type %j is refused', async (type) => {
    const answer = await post(writeBulk(good(1)), type);
    expect(answer.status).toBe(415);
    expect(errorOf(answer).code).toBe('unsupported_media_type');
  });

  test('of jobs as JSON is refused if it comes as the bulk format, and the other way round', async () => {
    const answer = await post(`{"jobs":[{"type":"a"}]}`);
    expect(answer.status).toBe(400);
    expect(errorOf(answer).message).toContain('jobs[0]: unknown field "jobs"');
    const bulk = { method: 'POST', body: writeBulk(good(1)), headers: { 'content-type': 'application/x-ndjson' } };
    for (const path of ['/api/v1/jobs', '/api/v1/jobs/batch']) {
      const refused = await api.call(path, bulk);
      expect(refused.status).toBe(415);
      expect(errorOf(refused).message).toBe('content-type: expected application/json, got application/x-ndjson');
    }
    const json = await post('{"type":"a"}', 'application/json');
    expect(errorOf(json).message).toBe('content-type: expected application/x-ndjson, got application/json');
  });

  test('may name its character set', async () => {
    expect((await post(writeBulk(good(1)), 'application/x-ndjson; charset=utf-8')).status).toBe(201);
  });

  test('that is not UTF-8 is refused', async () => {
    const answer = await post(Buffer.from([0x22, 0xff, 0xfe, 0x22]));
    expect(errorOf(answer)).toMatchObject({ code: 'invalid_json', message: expect.stringContaining('UTF-8') });
  });

  test('with a wrong head is refused with the field and the place, and nothing of it is added', async () => {
    const before = await stored();
    const head = (fields: string) => `{"type":"a",${fields}"ids":["${newId()}"]}\n1`;
    const bodies: [string, string, string][] = [
      [`${head('')}\n${head('"queue":"a b",')}`, 'invalid_request', 'jobs[1].queue: expected a name'],
      [`${head('')}\n${head('"colour":"red",')}`, 'invalid_request', 'jobs[1]: unknown field "colour"'],
      [`${head('')}\n${head('').slice(1)}`, 'invalid_json', 'the head line of jobs[1] is not valid JSON'],
    ];
    for (const [body, code, message] of bodies) {
      const answer = await post(body);
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toMatchObject({ code, message: expect.stringContaining(message) });
    }
    expect(await stored()).toBe(before);
  });

  test('with an id of the far future is refused with its place', async () => {
    const answer = await add(...good(1), jobOf('1', '0fffffff-ffff-7000-8000-000000000000'));
    expect(errorOf(answer).message).toMatch(/^jobs\[1\]\.id: its time is more than a day ahead/);
  });

  test('of ten thousand jobs is taken, and of one more is refused', async () => {
    const jobs = Array.from({ length: LIMITS.batchJobs }, () => jobOf('1'));
    expect((await add(...jobs)).body).toMatchObject({ existed: [] });
    for (const head of ['"type":"a"', '"type":"b"']) {
      const answer = await add(...jobs, jobOf('1', newId(), head));
      expect(answer.status).toBe(413);
      expect(errorOf(answer)).toMatchObject({
        code: 'batch_too_large',
        message: 'jobs: expected at most 10000 jobs in one request, got 10001 or more',
      });
    }
  });

  test('of more bytes than a request may have is refused before it is read', async () => {
    const head = `POST ${BULK} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n`;
    const answer = await api.sendRaw(`${head}content-length: ${LIMITS.requestBytes + 1}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toMatch(/"request_too_large".*67108864/);
  });
});
