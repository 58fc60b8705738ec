/** The choice of a database host: which candidate is best, and what a probe of a silent host leaves behind. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { bestOf, type Candidate, findWritable } from '../../src/db/choose-host.js';

const candidate = (url: string, timeline: number, systemId = 'ours'): Candidate => ({ url, timeline, systemId });

describe('the best candidate', () => {
  test('has the highest timeline', () => {
    expect(bestOf([candidate('a', 1), candidate('b', 3), candidate('c', 2)], undefined)?.url).toBe('b');
    expect(bestOf([], undefined)).toBeUndefined();
  });

  test('is never one with a lower timeline than seen before, or of another cluster', () => {
    const seen = candidate('a', 2);
    expect(bestOf([candidate('a', 1)], seen)).toBeUndefined();
    expect(bestOf([candidate('b', 9, 'another')], seen)).toBeUndefined();
    expect(bestOf([candidate('b', 2), candidate('c', 1)], seen)?.url).toBe('b');
  });
});

let server: Server | undefined;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server?.close();
});

/** Listens as PostgreSQL does and answers each connection with `answer`, but never closes one. */
async function listen(answer: (socket: Socket) => void): Promise<string> {
  server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return `postgres://user@127.0.0.1:${port}/db?sslmode=disable`;
}

const message = (type: string, ...parts: (string | number[])[]) => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
};
const READY = Buffer.concat([message('R', [0, 0, 0, 0]), message('Z', 'I')]);
const NO_ROWS = Buffer.concat([message('T', [0, 0]), message('C', 'SELECT 0\0'), message('Z', 'I')]);

describe('a probe of a host that', () => {
  test.each([
    ['accepts connections and says nothing', () => {}],
    ['lets a session begin and does not answer the question', (socket: Socket) => socket.write(READY)],
    [
      'answers, and does not notice the end of the session',
      (socket: Socket) => {
        socket.write(READY);
        socket.once('data', () => socket.write(NO_ROWS));
      },
    ],
  ])('%s finds no candidate and leaves no socket open', async (_, answer) => {
    const url = await listen(answer);
    expect(await findWritable([url])).toEqual([]);
    const [socket] = sockets as [Socket];
    socket.resume();
    // a socket that is destroyed refuses what is written to it; one that was only ended still reads
    await expect
      .poll(
        () => {
          if (!socket.destroyed) socket.write(message('N', 'x\0\0'));
          return socket.destroyed;
        },
        { timeout: 10_000, interval: 100 },
      )
      .toBe(true);
  });
});
