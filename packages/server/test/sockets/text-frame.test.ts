import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { sendText } from '../../src/sockets/text-frame.js';

const http = createServer();
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
let socket: WebSocket;
let carrier: Duplex;
let client: WebSocket;
beforeAll(async () => {
  const accepted = new Promise<void>((resolve) => {
    http.on('upgrade', (request, stream, head) => {
      sockets.handleUpgrade(request, stream, head, (opened) => {
        [socket, carrier] = [opened, stream];
        resolve();
      });
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`);
  await Promise.all([accepted, once(client, 'open')]);
});
afterAll(() => {
  client.terminate();
  http.close();
});

test.each([
  ['nothing', ''],
  ['a word', 'word'],
  ['the longest of a short head', 'x'.repeat(125)],
  ['the shortest of two bytes', 'x'.repeat(126)],
  ['the longest in one piece', 'x'.repeat(1000)],
  ['the longest in bytes', '€'.repeat(1000)],
  ['one that is longer', 'x'.repeat(1001)],
  ['several megabytes', 'x'.repeat(5_000_000)],
  ['more bytes than characters', '€'.repeat(42)],
  ['half of a pair, which becomes what JSON makes of it', 'a\ud800b'],
])('a text arrives as it was sent: %s', async (_, text) => {
  const sent = new Promise<void>((resolve) => sendText(socket, carrier, text, resolve));
  const [data, isBinary] = await once(client, 'message');
  expect(String(data) === Buffer.from(text).toString()).toBe(true);
  expect(isBinary).toBe(false);
  await sent;
});

test('texts arrive in order, also between those that the socket sends itself', async () => {
  const received: string[] = [];
  client.on('message', (data) => received.push(String(data)));
  sendText(socket, carrier, '1', () => {});
  socket.send('2');
  sendText(socket, carrier, '3', () => {});
  socket.send('4');
  await expect.poll(() => received).toEqual(['1', '2', '3', '4']);
});

test('nothing follows the end of a connection', async () => {
  const received: string[] = [];
  client.on('message', (data) => received.push(String(data)));
  socket.close(1001, 'over');
  await new Promise<void>((resolve) => sendText(socket, carrier, 'too late', resolve));
  const [code] = await once(client, 'close');
  await new Promise<void>((resolve) => sendText(socket, carrier, 'much too late', resolve));
  expect(code).toBe(1001);
  expect(received).toEqual([]);
});
