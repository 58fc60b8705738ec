/**
 * Stands between workers and one server and treats whole frames badly, in both directions, by a seed: some are lost,
 * some come twice, some late. Order is kept, as on every connection; `hello` and `welcome` pass, because without
 * them there is no stream. No connection lives long: on a real network a lost frame ends it, too.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';
import { createRandom, type Random } from '../../../../../test/chaos/random.js';

const LOST = 0.08;
const TWICE = 0.12;
const LATE = 0.1;
const LONGEST_DELAY_MS = 40;
const LIFE_MS = [300, 1500] as const;

export type FrameProxy = {
  readonly url: string;
  /** Frames that were lost, doubled or held up so far. */
  readonly counts: { lost: number; twice: number; late: number; connections: number };
  /** Where the frames go. */
  target: string;
  /** From now on everything passes; connections that have suffered end. */
  heal(): void;
  close(): Promise<void>;
};

export async function startFrameProxy(seed: number): Promise<FrameProxy> {
  const random = createRandom(seed);
  const counts = { lost: 0, twice: 0, late: 0, connections: 0 };
  const pairs = new Set<[WebSocket, WebSocket]>();
  let isWell = false;
  const http = createServer((_, response) => response.writeHead(404).end());
  const front = new WebSocketServer({ noServer: true });

  function join(near: WebSocket, request: IncomingMessage): void {
    counts.connections += 1;
    const far = new WebSocket(`${proxy.target.replace('http', 'ws')}${request.url}`);
    const pair: [WebSocket, WebSocket] = [near, far];
    pairs.add(pair);
    const toServer = lane(far, random.fork(`up ${counts.connections}`));
    const toWorker = lane(near, random.fork(`down ${counts.connections}`));
    const waiting: string[] = [];
    near.on('message', (data) =>
      far.readyState === WebSocket.OPEN ? toServer(String(data)) : waiting.push(String(data)),
    );
    far.on('open', () => waiting.splice(0).forEach(toServer));
    far.on('message', (data) => toWorker(String(data)));
    const life = isWell ? undefined : setTimeout(end, random.between(...LIFE_MS));
    function end(): void {
      clearTimeout(life);
      pairs.delete(pair);
      near.terminate();
      far.terminate();
    }
    for (const socket of pair) socket.on('close', end).on('error', end);
  }

  /** One direction of one connection. */
  function lane(to: WebSocket, chance: Random): (text: string) => void {
    let last: Promise<void> = Promise.resolve();
    const send = (text: string) => {
      if (to.readyState === WebSocket.OPEN) to.send(text);
    };
    return (text) => {
      const roll = chance.next();
      const delayMs = !isWell && chance.next() < LATE ? chance.between(1, LONGEST_DELAY_MS) : 0;
      const isNeeded = isWell || /^\{"kind":"(hello|welcome|refused)"/.test(text);
      const times = isNeeded || roll >= LOST + TWICE ? 1 : roll < LOST ? 0 : 2;
      if (times === 0) counts.lost += 1;
      if (times === 2) counts.twice += 1;
      if (delayMs > 0) counts.late += 1;
      // one after the other, so that a late frame holds up those behind it
      last = last.then(async () => {
        if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
        for (let time = 0; time < times; time++) send(text);
      });
    };
  }

  http.on('upgrade', (request, socket, head) => {
    front.handleUpgrade(request, socket, head, (near) => join(near, request));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const proxy: FrameProxy = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    counts,
    target: '',
    heal() {
      isWell = true;
      for (const [near, far] of pairs) {
        near.terminate();
        far.terminate();
      }
    },
    async close() {
      for (const [near, far] of pairs) {
        near.terminate();
        far.terminate();
      }
      await new Promise((resolve) => http.close(resolve));
    },
  };
  return proxy;
}
