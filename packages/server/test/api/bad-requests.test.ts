import { connect } from 'node:net';
import { ERRORS, type ErrorCode, isErrorCode, LIMITS, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiBench, createApiBench, errorOf, type RequestOptions } from './api-bench.js';

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench();
});
afterAll(() => api.close());

const JOBS = '/api/v1/jobs';
const BATCH = '/api/v1/jobs/batch';
const ID = newId();
const FUTURE_ID = '0fffffff-ffff-7000-8000-000000000000';

const post = (body: unknown, headers: Record<string, string> = {}): RequestOptions => ({
  method: 'POST',
  body,
  headers,
});
const withType = (type: string) => post('{"type":"hello"}', { 'content-type': type });
const deep = (levels: number) => post(`{"type":"hello","payload":${'['.repeat(levels)}${']'.repeat(levels)}}`);

/** The fields of a new job that are wrong, and what the message must name. */
const badFields: [what: string, fields: object, ...names: string[]][] = [
  ['no type', { type: undefined }, 'type'],
  ['a type that is no name', { type: 'two words' }, 'type', '"two words"', 'name of letters'],
  ['a type that is too long', { type: 'x'.repeat(129) }, 'type', '128'],
  ['a type of the wrong kind', { type: 7 }, 'type', '7', 'string'],
  ['an unknown field', { prio: 1 }, '"prio"'],
  ['a field that every object has', { constructor: 1 }, '"constructor"'],
  ['a queue that is no name', { queue: '' }, 'queue', '""'],
  ['null as a field', { queue: null }, 'queue'],
  ['a priority out of range', { priority: 1001 }, 'priority', '1001', '1000'],
  ['a broken priority', { priority: 1.5 }, 'priority', '1.5'],
  ['no attempts', { maxAttempts: 0 }, 'maxAttempts', '0'],
  ['a duration without unit', { timeout: '30' }, 'timeout', '"30"', '30s'],
  ['a negative duration', { delay: -1 }, 'delay', '-1'],
  ['an endless duration', { retention: '4000d' }, 'retention', '"4000d"'],
  ['a time without zone', { runAt: '2030-01-01 00:00' }, 'runAt', '"2030-01-01 00:00"', 'ISO 8601'],
  ['a day that does not exist', { expiresAt: '2030-02-30T00:00:00Z' }, 'expiresAt', 'ISO 8601'],
  ['a year before time', { runAt: '1969-01-01T00:00:00Z' }, 'runAt', '1970'],
  ['a delay and a time', { delay: '1s', runAt: '2030-01-01T00:00:00Z' }, 'runAt', 'not both'],
  ['an unknown back-off', { backoff: { kind: 'linear' } }, 'backoff'],
  ['an unknown field of a back-off', { backoff: { kind: 'fixed', delay: 1, x: 1 } }, 'backoff', '"x"'],
  ['too many tags', { tags: Array(21).fill('a') }, 'tags', '20'],
  ['a tag with a control character', { tags: ['a\u0000'] }, 'tags[0]', 'control'],
  ['an id that is not a UUID', { id: 'abc' }, 'id', '"abc"', 'UUID'],
  ['an id of the far future', { id: FUTURE_ID }, 'id', FUTURE_ID, 'more than a day ahead'],
];

/** Requests of other kinds with a mistake in what they say. */
const invalidRequests: [what: string, path: string, options: RequestOptions, ...names: string[]][] = [
  ['a payload that is too deep', JOBS, deep(1001), 'payload', '1000 levels'],
  ['a payload of absurd depth', JOBS, deep(200_000), '(body)', 'levels'],
  [
    'absurd depth elsewhere',
    JOBS,
    post(`{"type":${'['.repeat(200_000)}${']'.repeat(200_000)}}`),
    '(body)',
    '1010 levels',
  ],
  ['no body', JOBS, { method: 'POST' }, '(body)'],
  ['an empty body', JOBS, post(''), '(body)'],
  ['a body that is a list', JOBS, post([]), '(body)'],
  ['a body that is null', JOBS, post('null'), '(body)'],
  ['a body where there is none', `${JOBS}/${ID}/cancel`, post({ reason: 'x' }), '(body)'],
  ['a batch without jobs', BATCH, post({}), 'jobs'],
  ['a batch that is a list', BATCH, post([{ type: 'hello' }]), '(body)'],
  ['a batch with another field', BATCH, post({ jobs: [], more: 1 }), '"more"'],
  [
    'a wrong job in a batch',
    BATCH,
    post({ jobs: [{ type: 'a' }, { type: 'a', priority: 'x' }] }),
    'jobs[1].priority',
    '"x"',
  ],
  [
    'an id of the future in a batch',
    BATCH,
    post({ jobs: [{ type: 'a' }, { type: 'a', id: FUTURE_ID }] }),
    'jobs[1].id',
  ],
  ['nothing in a batch', BATCH, post({ jobs: [null] }), 'jobs[0]'],
  ['a note that cannot be stored', '/api/v1/cluster/pause', post({ note: 'a\u0000' }), 'note', 'U+0000'],
  [
    'a description that cannot be read in SQL',
    '/api/v1/schedules/s',
    { method: 'PUT', body: { every: '1h', job: { type: 'hello' }, description: 'half a \ud800 pair' } },
    'description',
    'U+0000',
  ],
  ['an unknown filter', `${JOBS}?status=ready`, {}, '"status"'],
  ['an unknown state', `${JOBS}?state=done`, {}, 'state[0]', '"done"', 'succeeded'],
  ['an unknown state among others', `${JOBS}?state=ready,done`, {}, 'state[1]', '"ready,done"'],
  ['a limit of nothing', `${JOBS}?limit=0`, {}, 'limit', '"0"'],
  ['a limit that is too large', `${JOBS}?limit=1001`, {}, 'limit', '1000'],
  ['a limit that is not a number', `${JOBS}?limit=many`, {}, 'limit', '"many"'],
  ['a filter given twice', `${JOBS}?queue=a&queue=b`, {}, 'queue', '["a","b"]'],
  ['a time that is none', `${JOBS}?createdAfter=yesterday`, {}, 'createdAfter', '"yesterday"'],
  ['an endless cursor', `${JOBS}?cursor=${'a'.repeat(LIMITS.cursorLength + 1)}`, {}, 'cursor', '1000'],
  ['a query where there is none', '/api/v1/stats?since=1', {}, '"since"'],
  ['an id in the path that is none', `${JOBS}/abc`, {}, 'id', '"abc"', 'UUID'],
  ['dots as an id', `${JOBS}/%2e%2e`, {}, 'id', '".."'],
  ['a slash too many', `${JOBS}/`, {}, 'id'],
  ['a broken escape', `${JOBS}/%zz`, {}, '%zz'],
  ['an endless id', `${JOBS}/${'a'.repeat(5000)}`, {}],
  ['a wait that is none', `${JOBS}/${ID}/result?wait=long`, {}, 'wait', '"long"'],
];

const refused: [what: string, path: string, options: RequestOptions, code: ErrorCode, ...names: string[]][] = [
  ['half a body', JOBS, post('{"type":"he'), 'invalid_json', 'not valid JSON'],
  ['a body in another encoding', JOBS, post(Buffer.from([0x22, 0xff, 0xfe, 0x22])), 'invalid_json', 'UTF-8'],
  ['a form', JOBS, withType('application/x-www-form-urlencoded'), 'unsupported_media_type', 'application/json'],
  ['text', JOBS, withType('text/plain'), 'unsupported_media_type', 'application/json'],
  ['no content type', JOBS, withType(''), 'unsupported_media_type', 'application/json'],
  ['a nonsensical content type', JOBS, withType(';;='), 'unsupported_media_type', 'application/json'],
  ['a huge batch', BATCH, post({ jobs: Array(LIMITS.batchJobs + 1).fill({ type: 'a' }) }), 'batch_too_large', '10000'],
  ['a made-up cursor', `${JOBS}?cursor=abc`, {}, 'invalid_cursor', 'cursor', '"abc"'],
  ['a job that is not there', `${JOBS}/${ID}`, {}, 'job_not_found', ID],
  ['the result of a job that is not there', `${JOBS}/${ID}/result?wait=30s`, {}, 'job_not_found', ID],
  ['cancel of a job that is not there', `${JOBS}/${ID}/cancel`, { method: 'POST' }, 'job_not_found', ID],
  ['retry of a job that is not there', `${JOBS}/${ID}/retry`, { method: 'POST' }, 'job_not_found', ID],
  ['an unknown address', '/api/v1/nothing', {}, 'not_found', '/api/v1/nothing'],
  ['the root of the API', '/api', {}, 'not_found', '/api'],
  ['two slashes', '/api//v1/jobs', {}, 'not_found', '/api//v1/jobs'],
  ['another method', JOBS, { method: 'DELETE' }, 'method_not_allowed', 'DELETE', 'POST', 'GET'],
  ['an action by GET', `${JOBS}/${ID}/cancel`, {}, 'method_not_allowed', 'GET', 'POST'],
  ['OPTIONS', JOBS, { method: 'OPTIONS' }, 'method_not_allowed', 'OPTIONS'],
  ['a method of other protocols', JOBS, { method: 'PROPFIND' }, 'method_not_allowed', 'PROPFIND'],
];

async function expectRefusal(path: string, options: RequestOptions, code: ErrorCode, names: string[]): Promise<void> {
  const answer = await api.call(path, options);
  const error = errorOf(answer);
  expect({ status: answer.status, code: error.code }).toEqual({ status: ERRORS[code].status, code });
  expect(error.message).not.toBe('');
  for (const name of names) expect(error.message).toContain(name);
}

describe('a bad request is refused with its code, and the message names what is wrong', () => {
  test.each(badFields)('%s', async (_what, fields, ...names) => {
    await expectRefusal(JOBS, post({ type: 'hello', ...fields }), 'invalid_request', names);
    const batch = { jobs: [{ type: 'hello' }, { type: 'hello', ...fields }] };
    await expectRefusal(BATCH, post(batch), 'invalid_request', ['jobs[1]', ...names.slice(1)]);
  });

  test.each(invalidRequests)('%s', (_what, path, options, ...names) =>
    expectRefusal(path, options, 'invalid_request', names),
  );

  test.each(refused)('%s', (_what, path, options, code, ...names) => expectRefusal(path, options, code, names));

  test('the details name each field, its value and what was expected', async () => {
    const { details } = errorOf(await api.call(JOBS, post({ type: 'a b', priority: 5000 })));
    expect(details).toMatchObject({
      issues: [
        { field: 'type', value: '"a b"' },
        { field: 'priority', value: '5000' },
      ],
    });
  });

  test('a refused method comes with those that are possible', async () => {
    expect((await api.call(JOBS, { method: 'DELETE' })).headers.allow).toBe('POST, GET, HEAD');
    expect((await api.call(BATCH, { method: 'PUT' })).headers.allow).toBe('POST');
  });

  test('nothing of a batch with one wrong job is added', async () => {
    const id = newId();
    await api.call(BATCH, post({ jobs: [{ type: 'a', id }, { type: '' }] }));
    expect((await api.call(`${JOBS}/${id}`)).status).toBe(404);
  });
});

describe('what is not even HTTP gets an answer of the same form, and the server lives on', () => {
  const host = 'host: localhost\r\n';
  const broken: [what: string, bytes: string, message: RegExp][] = [
    ['garbage', 'hello\r\n\r\n', /not valid HTTP/],
    ['endless headers', `GET / HTTP/1.1\r\n${host}x: ${'a'.repeat(40_000)}\r\n\r\n`, /headers are over the limit/],
    ['no host', 'GET /api/ping HTTP/1.1\r\nconnection: close\r\n\r\n', /host/],
    ['an odd expectation', `GET /api/ping HTTP/1.1\r\n${host}expect: wonders\r\n\r\n`, /wonders/],
    ['two lengths', `POST / HTTP/1.1\r\n${host}content-length: 1\r\ncontent-length: 2\r\n\r\n{}`, /not valid HTTP/],
  ];
  test.each(broken)('%s', async (_what, bytes, message) => {
    const answer = await api.sendRaw(bytes);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    const { error } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as { error: Record<string, string> };
    expect(isErrorCode(error.code)).toBe(true);
    expect(error.message).toMatch(message);
    expect((await api.call('/api/ping')).text).toBe('pong\n');
  });

  test('a client that goes away in the middle of its body', async () => {
    const head = `POST ${JOBS} HTTP/1.1\r\n${host}content-type: application/json\r\ncontent-length: 1000\r\n\r\n`;
    await new Promise<void>((resolve) => {
      const socket = connect(api.port, '127.0.0.1', () =>
        socket.write(`${head}{"type":`, () => socket.resetAndDestroy()),
      );
      socket.on('close', () => resolve());
    });
    expect((await api.call('/api/ping')).text).toBe('pong\n');
  });
});
