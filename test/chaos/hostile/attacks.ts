/**
 * What a hostile peer with a valid token does to a server: as a worker without a job, and as a client that may read.
 * Each attack is one round, with its own connections, and is repeated until the run stops it.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS, newId, STREAM_PATH, STREAM_VERSION, workerMessageSchema } from '@drover/protocol';
import fc from 'fast-check';
import { WebSocket } from 'ws';
import { hostileText, inputOf } from '../../support/hostile-input.js';
import { HOSTILE } from './hostile.js';

type Attack = (url: URL, seed: number) => Promise<void>;

const ROUND_MS = 2000;
const FRAMES = 20;
const API = '/api/v1';
const EVERYTHING = `${API}/jobs?limit=1000&include=payload,result,progress,stack`;

const frame = fc.oneof(
  { weight: 6, arbitrary: inputOf(workerMessageSchema).map((message) => JSON.stringify(message) ?? '') },
  { weight: 1, arbitrary: hostileText },
);
/** Made once: the peer must not be busy with its own texts. */
const MANY_VALUES = `[${'{},'.repeat(160_000)}{}]`;
const TOO_MANY_VALUES = `{"jobs":[${'{},'.repeat(LIMITS.jsonValues)}{}]}`;
const LARGE = 'x'.repeat(32 * 1024 * 1024);
const MANY_HOLDS = JSON.stringify(Array.from({ length: LIMITS.grants }, () => ({ id: newId(), fence: 1 })));
const STALE = JSON.stringify({
  kind: 'outcomes',
  items: Array.from({ length: LIMITS.frameOutcomes }, () => ({ kind: 'succeeded', id: newId(), fence: 1, runMs: 1 })),
});

function helloText(holds = '[]'): string {
  const hello = {
    ...{ kind: 'hello', version: STREAM_VERSION, sessionId: newId(), resumeKey: 'h'.repeat(43), connection: 1 },
    ...{ name: HOSTILE, host: 'h', pid: 1, sdk: 'h', types: [HOSTILE], slots: 10_000, window: 1e9 },
  };
  return `${JSON.stringify(hello).slice(0, -1)},"holds":${holds}}`;
}

/** A connection as a worker. Resolves when it is over, at the latest after a round. */
async function asWorker(url: URL, act: (socket: WebSocket) => Promise<void> | void): Promise<void> {
  const socket = new WebSocket(`ws://${url.host}${STREAM_PATH}`);
  const over = new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.on('error', () => resolve());
  });
  socket.on('open', () => void act(socket));
  await Promise.race([over, delay(ROUND_MS)]);
  socket.terminate();
}

async function ask(url: URL, path: string, init: RequestInit = {}): Promise<void> {
  const signal = AbortSignal.timeout(ROUND_MS);
  const answer = await fetch(new URL(path, url), { ...init, signal }).catch(() => undefined);
  await answer?.arrayBuffer().catch(() => {});
}

function post(url: URL, path: string, body: string): Promise<void> {
  return ask(url, path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
}

function openSocket(url: URL, text: string): Socket {
  const socket = connect(Number(url.port), url.hostname);
  socket.on('error', () => {});
  socket.write(text);
  return socket;
}

async function holdOpen(sockets: Socket[]): Promise<void> {
  await delay(ROUND_MS);
  for (const socket of sockets) socket.destroy();
}

function times<Value>(count: number, make: () => Value): Value[] {
  return Array.from({ length: count }, make);
}

export const ATTACKS = {
  async 'frames that are not of the protocol'(url, seed) {
    for (const frames of fc.sample(fc.array(frame, { maxLength: 6 }), { numRuns: FRAMES, seed })) {
      await asWorker(url, (socket) => {
        socket.send(helloText());
        for (const text of frames) socket.send(text);
        socket.close();
      });
    }
  },
  'a hello with as many grants as there may be': (url) => asWorker(url, (socket) => socket.send(helloText(MANY_HOLDS))),
  'outcomes of others, without reading the answers': (url) =>
    asWorker(url, async (socket) => {
      socket.send(helloText());
      socket.pause();
      for (let turn = 0; turn < FRAMES && socket.readyState === WebSocket.OPEN; turn++) {
        socket.send(STALE);
        await delay(20);
      }
    }),
  'bodies with as many values as there may be': (url) => post(url, `${API}/schedules/preview`, MANY_VALUES),
  'bodies with more values': (url) => post(url, `${API}/jobs/batch`, TOO_MANY_VALUES),
  'bodies of 32 MiB that are not JSON': (url) => post(url, `${API}/jobs/batch`, LARGE),
  async 'bodies that never end'(url) {
    const head = `POST ${API}/jobs/batch HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n`;
    await holdOpen(
      times(8, () => {
        const socket = openSocket(url, `${head}content-length: ${LIMITS.requestBytes}\r\n\r\n`);
        socket.write(LARGE);
        return socket;
      }),
    );
  },
  'connections that say nothing': (url) => holdOpen(times(300, () => openSocket(url, 'GET / HTTP/1.1\r\n'))),
  'the largest lists': async (url) => void (await Promise.all(times(4, () => ask(url, EVERYTHING)))),
  async 'many waiting requests'(url) {
    const { items } = await fetch(new URL(`${API}/jobs?limit=1&state=scheduled`, url)).then(
      (answer) => answer.json() as Promise<{ items: { id: string }[] }>,
      () => ({ items: [] }),
    );
    const [job] = items;
    if (job) await Promise.all(times(500, () => ask(url, `${API}/jobs/${job.id}/result?wait=100s`)));
  },
} as const satisfies Record<string, Attack>;

export type AttackName = keyof typeof ATTACKS;
