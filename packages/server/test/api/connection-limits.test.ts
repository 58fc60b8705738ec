import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { LIMITS } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { limitConnections } from '../../src/api/connection-limits.js';
import { jobHandlers } from '../../src/api/jobs.js';
import { createQuota } from '../../src/base/quota.js';
import { connectDatabase } from '../../src/db/database.js';
import type { Engine } from '../../src/engine/engine.js';
import { type ApiBench, createApiBench } from './api-bench.js';

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench();
});
afterAll(() => api.close());

test('an address has only so many connections that no known caller uses; those of known callers do not count', async () => {
  const logged: string[] = [];
  const server = createServer((incoming, response) => {
    if (incoming.url === '/known') limits.know(incoming.socket);
    response.end();
  });
  const logger = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) });
  const limits = limitConnections(server, logger, { connections: 5, unknownConnections: 2 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  const open = async () => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  };
  const known = async () => {
    const socket = await open();
    socket.write('GET /known HTTP/1.1\r\nhost: a\r\n\r\n');
    await once(socket, 'data');
  };
  const isRefused = async () => {
    const socket = await open();
    await once(socket, 'close');
  };
  await known();
  await known();
  const first = await open();
  await open();
  await isRefused();
  first.destroy();
  // until the server has noticed, the place is taken
  await expect
    .poll(
      () =>
        new Promise((resolve) => {
          const asked = request({ port, host: '127.0.0.1', path: '/', agent: false }, (response) =>
            resolve(response.statusCode),
          );
          asked.on('error', () => resolve('refused')).end();
        }),
    )
    .toBe(200);
  await known();
  // five in all
  await open();
  await isRefused();
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    { event: 'connections.full', address: '127.0.0.1', limit: 2, msg: 'connection was refused: too many' },
  ]);
  for (const socket of sockets) socket.destroy();
  server.close();
});

test('a caller waits for so many results on a server, and is told the limit; others wait on', async () => {
  const quota = createQuota(2);
  const [first] = [quota.enter('a'), quota.enter('a')];
  expect([quota.enter('a'), typeof quota.enter('b')]).toEqual([undefined, 'function']);
  first?.();
  first?.();
  expect([typeof quota.enter('a'), quota.enter('a')]).toEqual(['function', undefined]);

  const { body } = await api.call('/api/v1/jobs', { method: 'POST', body: { type: 'a' } });
  const db = connectDatabase({ url: api.database.url, poolSize: 1 });
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const engine = {
    waitForFinish: () => ended,
  } as unknown as Engine;
  const config = { payloadLimitBytes: LIMITS.payloadBytes };
  const { jobResult } = jobHandlers({ engine, db: db.reads, config, resultWaits: 2 });
  const principal = {
    name: 'shop',
    role: 'client',
    kind: 'token',
    tokenId: 't',
    scope: undefined,
    payloads: true,
  } as const;
  const ask = async (address: string, wait = 1000): Promise<unknown> =>
    jobResult({
      ...{
        params: body as { id: string },
        query: { wait },
        body: undefined,
        by: { principal, address, requestId: null, action: 'jobResult' },
      },
      ...{ gone: () => new AbortController().signal, setStatus() {} },
    });
  const waiting = [ask('10.0.0.1'), ask('10.0.0.1')];
  await expect(ask('10.0.0.1')).rejects.toMatchObject({
    code: 'overloaded',
    message: '"shop" already waits for 2 results on this server from 10.0.0.1, which is the limit',
  });
  await ask('10.0.0.1', 0);
  waiting.push(ask('10.0.0.2'));
  end();
  await Promise.all(waiting);
  await ask('10.0.0.1', 0);
  await db.close();
});
