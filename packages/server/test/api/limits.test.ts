import { connect } from 'node:net';
import { LIMITS, newId } from '@drover/protocol';
import { afterEach, describe, expect, test } from 'vitest';
import { type ApiBench, createApiBench, errorOf } from './api-bench.js';

let api: ApiBench;
afterEach(() => api.close());

const JOBS = '/api/v1/jobs';
const post = (path: string, body: unknown) => api.call(path, { method: 'POST', body });

describe('the limit of a payload', () => {
  test('is met to the byte, however the text was written', async () => {
    api = await createApiBench({ payloadLimitBytes: 100 });
    // quotes and braces take 8 bytes
    const payload = (bytes: number) => ({ a: 'x'.repeat(bytes - 8) });
    expect((await post(JOBS, { type: 'a', payload: payload(100) })).status).toBe(201);
    const answer = await post(JOBS, { type: 'a', payload: payload(101) });
    expect(answer.status).toBe(413);
    expect(errorOf(answer)).toMatchObject({
      code: 'payload_too_large',
      message: expect.stringMatching(/payload.*100 bytes.*101/),
      details: { field: 'payload', limit: 100, bytes: 101 },
    });
    // bytes, not characters
    expect((await post(JOBS, { type: 'a', payload: 'ü'.repeat(50) })).status).toBe(413);
    expect((await post(JOBS, { type: 'a', payload: 'ü'.repeat(49) })).status).toBe(201);
    // what counts is what is kept: spaces are not, a number may be longer than it was
    expect((await post(JOBS, `{"type":"a","payload":[${' '.repeat(200)}1]}`)).status).toBe(201);
    expect((await post(JOBS, `{"type":"a","payload":[${Array(10).fill('1e20').join(',')}]}`)).status).toBe(413);
  });

  test('names the job of a batch, of which nothing is added', async () => {
    api = await createApiBench({ payloadLimitBytes: 100 });
    const id = newId();
    const answer = await post(`${JOBS}/batch`, {
      jobs: [
        { type: 'a', id },
        { type: 'a', payload: 'x'.repeat(99) },
      ],
    });
    expect(answer.status).toBe(413);
    expect(errorOf(answer)).toMatchObject({
      code: 'payload_too_large',
      details: { field: 'jobs[1].payload', limit: 100 },
    });
    expect((await api.call(`${JOBS}/${id}`)).status).toBe(404);
  });

  test('is a mebibyte by default, and payloads of it are kept', async () => {
    api = await createApiBench();
    const payload = 'x'.repeat(LIMITS.payloadBytes - 2);
    const { body } = await post(JOBS, { type: 'a', payload });
    const shown = await api.call(`${JOBS}/${(body as { id: string }).id}`);
    expect((shown.body as { payload: string }).payload).toHaveLength(payload.length);
    expect((await post(JOBS, { type: 'a', payload: `${payload}x` })).status).toBe(413);
  });

  test('leaves a thousand levels of nesting', async () => {
    api = await createApiBench();
    const payload = `${'[{"a":'.repeat(500)}1${'}]'.repeat(500)}`;
    const { status, body } = await post(JOBS, `{"type":"a","payload":${payload}}`);
    expect(status).toBe(201);
    const shown = await api.call(`${JOBS}/${(body as { id: string }).id}`);
    expect(JSON.stringify((shown.body as { payload: unknown }).payload)).toBe(payload);
  });
});

const PREVIEW = '/api/v1/schedules/preview';
const head = (path: string) =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n`;

/** Sends the bytes without ending the connection, and gives the status of the answer. */
function statusOf(...parts: (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(api.port, '127.0.0.1', () => {
      for (const part of parts) socket.write(part);
    });
    socket.once('data', (data) => {
      resolve(data.toString().slice(0, 12));
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

describe('the limit of a request', () => {
  test.each([
    ['with many jobs', `${JOBS}/batch`, LIMITS.requestBytes],
    ['with one job', JOBS, LIMITS.jobRequestBytes],
    ['of any other kind', PREVIEW, LIMITS.bodyBytes],
    ['that has no body', `${JOBS}/${newId()}/cancel`, LIMITS.bodyBytes],
  ])('%s is told before the body has come', async (_, path, limit) => {
    api = await createApiBench();
    const answer = await api.sendRaw(`${head(path)}content-length: ${limit + 1}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toContain(`"code":"request_too_large","message":"the request body is over the limit of ${limit}`);
  });

  test('holds for a body of unknown length too', async () => {
    api = await createApiBench();
    const { requestBytes: limit } = LIMITS;
    const start = `${head(`${JOBS}/batch`)}transfer-encoding: chunked\r\n\r\n${limit.toString(16)}\r\n`;
    // One byte too many and no more: what a server that refuses leaves unread ends the connection with its answer.
    expect(await statusOf(start, Buffer.alloc(limit, ' '), '\r\n1\r\n \r\n')).toBe('HTTP/1.1 413');
  });

  test('counts its values before they are parsed, because they take more memory than their text', async () => {
    api = await createApiBench();
    const answer = await post(`${JOBS}/batch`, `[${'{},'.repeat(LIMITS.jsonValues)}{}]`);
    expect(answer.status).toBe(413);
    expect(errorOf(answer)).toMatchObject({
      code: 'request_too_large',
      message: '(body): expected at most 1000000 values, got more; split it',
      details: { limit: LIMITS.jsonValues },
    });
    const blanks = await post(`${JOBS}/batch`, `{"jobs":${' '.repeat(13 * LIMITS.jsonValues)}[]}`);
    expect(errorOf(blanks).code).toBe('request_too_large');
    const ids = `"${newId()}",`.repeat(30_000).slice(0, -1);
    const headers = { 'content-type': 'application/x-ndjson' };
    const bulk = await api.call(`${JOBS}/bulk`, { method: 'POST', headers, body: `{"type":"a","ids":[${ids}]}` });
    expect(errorOf(bulk)).toMatchObject({ code: 'request_too_large', message: expect.stringContaining('head line') });
  });

  test('of a wrong value of any size is answered at once, with the start of the value', async () => {
    api = await createApiBench();
    const startedAt = performance.now();
    const answer = await post(`${JOBS}/batch`, `[${'{},'.repeat(150_000)}{}]`);
    expect(errorOf(answer).message).toMatch(/^\(body\): expected an object, got \[(\{\},)+.{0,3}…$/);
    expect(performance.now() - startedAt).toBeLessThan(2000);
  });
});

describe('the memory for requests in progress', () => {
  test('counts values by what they are parsed into', async () => {
    api = await createApiBench({ requestMemoryBytes: 1_000_000 });
    const body = `{"type":"a","payload":[${'1,'.repeat(10_000)}1]}`;
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(JOBS, body)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 429]));
    const refused = answers.find(({ status }) => status === 429);
    expect(Number(refused?.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect((await post(JOBS, body)).status).toBe(201);
  });
});

describe('more than the server can write', () => {
  test('is refused before it is accepted, with the time to come again', async () => {
    api = await createApiBench({ maxPending: 10 });
    const batch = { jobs: Array.from({ length: 2000 }, () => ({ type: 'a', payload: 'x'.repeat(100) })) };
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(`${JOBS}/batch`, batch)));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) {
      expect(errorOf(answer).code).toBe('overloaded');
      expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(5);
    }
    const accepted = answers.filter(({ status }) => status === 201).length;
    const { rows } = await api.database.pool.query<{ jobs: number }>('select count(*)::int as jobs from drover.job');
    expect(rows[0]?.jobs).toBe(accepted * 2000);
  });
});

describe('a server that stops', () => {
  test('answers those who wait for a result and closes within its grace', async () => {
    api = await createApiBench();
    const { body } = await post(JOBS, { type: 'a' });
    const { id } = body as { id: string };
    const waiting = api.call(`${JOBS}/${id}/result?wait=100s`);
    // an answered request proves that the one sent before it on another connection has been read
    await api.call(`${JOBS}/${id}`);
    await api.server.stop();
    expect((await waiting).body).toMatchObject({ id, finished: false });
    await expect(api.call('/api/ping')).rejects.toThrow(/ECONNREFUSED|ECONNRESET/);
  });
});
