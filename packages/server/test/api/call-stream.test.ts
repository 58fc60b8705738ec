import { once } from 'node:events';
import { type AnswerFrame, CALLS_PATH, newId, parseAnswer } from '@drover/protocol';
import { afterEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { ServerConfig } from '../../src/config/server-config.js';
import { type ApiBench, createApiBench, TOKENS, tokenOf } from './api-bench.js';

let api: ApiBench;
const open: WebSocket[] = [];
afterEach(async () => {
  for (const socket of open.splice(0)) socket.terminate();
  await api.close();
});

async function connected(settings: Partial<ServerConfig> = {}, headers: Record<string, string> = {}) {
  api = await createApiBench(settings);
  const socket = new WebSocket(`ws://127.0.0.1:${api.port}${CALLS_PATH}`, { headers });
  open.push(socket);
  await once(socket, 'open');
  return socket;
}

/** Sends frames and gives as many answers, by their numbers. */
async function ask(socket: WebSocket, ...frames: string[]): Promise<Map<number, AnswerFrame>> {
  const answers = new Map<number, AnswerFrame>();
  let receive = (_data: unknown) => {};
  const all = new Promise<void>((resolve) => {
    receive = (data) => {
      const answer = parseAnswer(String(data));
      if (answer) answers.set(answer.number, answer);
      if (answers.size === frames.length) resolve();
    };
  });
  socket.on('message', receive);
  for (const frame of frames) socket.send(frame);
  await all;
  socket.off('message', receive);
  return answers;
}

/** A call that adds a job. */
const callOf = (number: number, payload = '1', id = newId()) =>
  `${number}\n{"type":"a","complete":true,"ids":["${id}"]}\n${payload}`;

describe('calls', () => {
  test('are the requests of the HTTP API, with the same answers', async () => {
    const socket = await connected();
    const [first, second, third] = [newId(), newId(), newId()];
    const answers = await ask(
      socket,
      callOf(1, '{"line":"one\\ntwo"}', first),
      `2\n{"type":"a","complete":true,"ids":["${second}"]}\n2\n{"type":"b","complete":true,"ids":["${third}"]}\n3`,
    );
    expect(answers.get(1)).toMatchObject({ status: 201, body: '{"existed":[]}' });
    expect(answers.get(2)).toMatchObject({ status: 201, body: '{"existed":[]}' });
    const again = await ask(
      socket,
      `3\n{"type":"a","complete":true,"ids":["${newId()}","${first}","${third}"]}\n1\n2\n3`,
    );
    expect(again.get(3)).toMatchObject({ status: 201, body: '{"existed":[1,2]}' });
    expect((await api.call(`/api/v1/jobs/${first}`)).body).toMatchObject({ payload: { line: 'one\ntwo' } });
    await api.call(`/api/v1/jobs/${first}/cancel`, { method: 'POST' });
    expect((await ask(socket, callOf(4, '1', first))).get(4)?.body).toBe('{"existed":[0]}');
    expect((await api.call(`/api/v1/jobs/${first}`)).body).toMatchObject({ state: 'cancelled' });
  });

  test('that are refused get the error of the table, and the others are carried out', async () => {
    const socket = await connected({ payloadLimitBytes: 100 });
    const answers = await ask(
      socket,
      `1\n{"type":"no spaces","ids":["${newId()}"]}\n1`,
      '2\n{"type"',
      callOf(3, `"${'x'.repeat(100)}"`),
      callOf(4, '1,2'),
      callOf(5, ''),
      callOf(6),
    );
    const codes = [1, 2, 3, 4, 5].map((number) => {
      const { status, body } = answers.get(number) as AnswerFrame;
      const { code, message } = JSON.parse(body).error;
      return [status, code, message.split(':')[0]];
    });
    expect(codes).toEqual([
      [400, 'invalid_request', 'jobs[0].type'],
      [400, 'invalid_json', 'the head line of jobs[0] is not valid JSON'],
      [413, 'payload_too_large', 'jobs[0].payload'],
      [400, 'invalid_request', 'jobs[0].payload'],
      [400, 'invalid_request', 'jobs[0].payload'],
    ]);
    expect(answers.get(6)?.status).toBe(201);
  });

  test('without jobs are answered', async () => {
    expect((await ask(await connected(), '1')).get(1)).toMatchObject({ status: 201, body: '{"existed":[]}' });
  });

  test('beyond what may wait are told when to come back', async () => {
    const socket = await connected({ maxPending: 1 });
    const frames = Array.from({ length: 50 }, (_, index) => callOf(index));
    const answers = [...(await ask(socket, ...frames)).values()];
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    for (const { retryAfterS, body } of refused) {
      expect(retryAfterS).toBeGreaterThan(0);
      expect(JSON.parse(body).error.code).toBe('overloaded');
    }
    const accepted = answers.filter(({ status }) => status === 201).length;
    const { rows } = await api.database.pool.query('select count(*)::int as count from drover.job');
    expect(rows[0]).toEqual({ count: accepted });
  });

  test('under way are answered before a stopping server closes', async () => {
    const socket = await connected();
    const closed = once(socket, 'close');
    const answers = ask(socket, ...Array.from({ length: 20 }, (_, index) => callOf(index)));
    await ask(socket, callOf(100));
    await api.server.stop();
    const statuses = [...(await answers).values()].map(({ status }) => status);
    expect(statuses.every((status) => status === 201)).toBe(true);
    expect((await closed)[0]).toBe(1001);
  });
});

describe('a connection', () => {
  test.each([
    ['bytes', Buffer.from(callOf(1))],
    ['no line', '{"type":"a"}'],
    ['no number', '\n{"type":"a"}'],
    ['another route', '1 GET /api/v1/jobs\n'],
    ['nothing', ''],
  ])('that sends %s is closed with the reason, and the server lives', async (_, frame) => {
    const socket = await connected();
    socket.send(frame);
    const [code, reason] = (await once(socket, 'close')) as [number, Buffer];
    expect(code).toBe(1008);
    expect(String(reason)).toBe('expected the number of the call on the first line');
    expect((await api.call('/api/ping')).status).toBe(200);
  });

  test.each([
    [undefined, 401],
    ['worker', 403],
    ['viewer', 403],
  ] as const)('of the role %s is refused with %d', async (role, status) => {
    api = await createApiBench({ tokens: TOKENS });
    const headers = role ? { authorization: `Bearer ${tokenOf(role)}` } : {};
    const socket = new WebSocket(`ws://127.0.0.1:${api.port}${CALLS_PATH}`, { headers });
    open.push(socket);
    const [, response] = await once(socket, 'unexpected-response');
    expect(response.statusCode).toBe(status);
    response.resume();
    socket.on('error', () => {});
  });

  test('of a client may add jobs', async () => {
    const socket = await connected({ tokens: TOKENS }, { authorization: `Bearer ${tokenOf('client')}` });
    expect((await ask(socket, callOf(1))).get(1)?.status).toBe(201);
  });

  test('from a page of another origin is refused by a server without tokens', async () => {
    api = await createApiBench();
    const socket = new WebSocket(`ws://127.0.0.1:${api.port}${CALLS_PATH}`, { origin: 'https://evil.example' });
    open.push(socket);
    const [, response] = await once(socket, 'unexpected-response');
    expect(response.statusCode).toBe(403);
    response.resume();
    socket.on('error', () => {});
  });
});
