import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type AnswerFrame, CALLS_PATH, ERA_HEADER, LIMITS, newId, parseAnswer } from '@drover/protocol';
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

const JOB = 'POST /api/v1/jobs';
const BATCH = 'POST /api/v1/jobs/batch';

describe('calls', () => {
  test('are the requests of the HTTP API, with the same answers', async () => {
    const socket = await connected();
    const [first, second, third] = [newId(), newId(), newId()];
    const answers = await ask(
      socket,
      `1 ${JOB}\n{"id":"${first}","type":"a","payload":{"line":"one\\ntwo"}}`,
      `2 ${BATCH}\n{"jobs":[{"id":"${second}","type":"a"},{"id":"${third}","type":"a"}]}`,
    );
    expect(answers.get(1)).toMatchObject({ status: 201, body: `{"id":"${first}","created":true}` });
    expect(JSON.parse(answers.get(2)?.body ?? '')).toEqual({
      items: [
        { id: second, created: true },
        { id: third, created: true },
      ],
    });
    const again = await ask(socket, `3 ${JOB}\n{"id":"${first}","type":"a"}`);
    expect(again.get(3)).toMatchObject({ status: 201, body: `{"id":"${first}","created":false}` });
    expect((await api.call(`/api/v1/jobs/${first}`)).body).toMatchObject({ payload: { line: 'one\ntwo' } });
  });

  test('name the era, and are told of another', async () => {
    api = await createApiBench();
    const socket = new WebSocket(`ws://127.0.0.1:${api.port}${CALLS_PATH}`);
    open.push(socket);
    const [[response]] = (await Promise.all([once(socket, 'upgrade'), once(socket, 'open')])) as [
      [IncomingMessage],
      [],
    ];
    const era = Number(response.headers[ERA_HEADER]);
    expect(era).toBe(Number((await api.database.pool.query('select last_value from drover.era')).rows[0].last_value));
    const job = () => `{"id":"${newId()}","type":"a"}`;
    const eraTold = async (frame: string) => [...(await ask(socket, frame)).values()].map((answer) => answer.era);
    expect(await eraTold(`1 ${JOB} ${era}\n${job()}`)).toEqual([undefined]);
    expect(await eraTold(`2 ${JOB} ${era}\n${job()}`)).toEqual([undefined]);
    expect(await eraTold(`3 ${JOB} 0\n${job()}`)).toEqual([era]);
    const batch = () => `{"jobs":[${job()},${job()}]}`;
    expect(await eraTold(`31 ${JOB}/batch ${era}\n${batch()}`)).toEqual([undefined]);
    expect(await eraTold(`32 ${JOB}/batch 0\n${batch()}`)).toEqual([era]);
    expect(await eraTold(`4 ${JOB}\n${job()}`)).toEqual([undefined]);

    // a job that is repeated ends it
    await api.call('/api/v1/jobs?repeated=true', { method: 'POST', body: { id: newId(), type: 'a' } });
    const [next] = await eraTold(`5 ${JOB} ${era}\n${job()}`);
    expect(next).toBe(Number((await api.database.pool.query('select last_value from drover.era')).rows[0].last_value));
    expect(next).not.toBe(era);
    // another server has done so
    await api.database.pool.query('select drover.end_era()');
    const id = newId();
    const [answer] = (await ask(socket, `6 ${JOB} ${next}\n{"id":"${id}","type":"a"}`)).values();
    expect(answer).toMatchObject({ status: 201, era: 0, body: `{"id":"${id}","created":true}` });
    await expect.poll(() => eraTold(`7 ${JOB} 0\n${job()}`), { timeout: 10_000 }).not.toEqual([undefined]);
  });

  test('that are refused get the error of the table, and the others go on', async () => {
    const socket = await connected({ payloadLimitBytes: 100 });
    const answers = await ask(
      socket,
      `1 ${JOB}\n{"type":"no spaces"}`,
      `2 ${JOB}\n{"type"`,
      `3 ${JOB}\n{"type":"a","payload":"${'x'.repeat(100)}"}`,
      `4 ${BATCH}\n{"jobs":[${Array(LIMITS.batchJobs + 1).fill('{"type":"a"}')}]}`,
      `5 ${JOB}`,
      `6 ${JOB}\n{"type":"a"}`,
    );
    const codes = [1, 2, 3, 4, 5].map((number) => {
      const { status, body } = answers.get(number) as AnswerFrame;
      return [status, JSON.parse(body).error.code];
    });
    expect(codes).toEqual([
      [400, 'invalid_request'],
      [400, 'invalid_json'],
      [413, 'payload_too_large'],
      [413, 'batch_too_large'],
      [400, 'invalid_request'],
    ]);
    expect(answers.get(6)?.status).toBe(201);
  });

  test('beyond what may wait are told when to come back', async () => {
    const socket = await connected({ maxPending: 1 });
    const frames = Array.from({ length: 50 }, (_, index) => `${index} ${JOB}\n{"type":"a"}`);
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
    const answers = ask(socket, ...Array.from({ length: 20 }, (_, index) => `${index} ${JOB}\n{"type":"a"}`));
    await ask(socket, `100 ${JOB}\n{"type":"a"}`);
    await api.server.stop();
    const statuses = [...(await answers).values()].map(({ status }) => status);
    expect(statuses.every((status) => status === 201)).toBe(true);
    expect((await closed)[0]).toBe(1001);
  });
});

describe('a connection', () => {
  test.each([
    ['bytes', Buffer.from(`1 ${JOB}\n{}`)],
    ['no line', '{"type":"a"}'],
    ['no number', `${JOB}\n{"type":"a"}`],
    ['another route', '1 GET /api/v1/jobs\n'],
    ['nothing', ''],
  ])('that sends %s is closed with the reason, and the server lives', async (_, frame) => {
    const socket = await connected();
    socket.send(frame);
    const [code, reason] = (await once(socket, 'close')) as [number, Buffer];
    expect(code).toBe(1008);
    expect(String(reason)).toContain('POST /api/v1/jobs');
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
    expect((await ask(socket, `1 ${JOB}\n{"type":"a"}`)).get(1)?.status).toBe(201);
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
