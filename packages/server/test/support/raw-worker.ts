/** A worker that a test plays by hand: frames as they are, over a real socket, with nothing in between. */
import type { IncomingHttpHeaders } from 'node:http';
import {
  type Grant,
  type Hello,
  newId,
  type PreviousSession,
  type ServerMessage,
  STREAM_PATH,
  STREAM_VERSION,
} from '@drover/protocol';
import { WebSocket } from 'ws';
import { proofOf } from '../../src/sessions/session-proof.js';

type Kind = ServerMessage['kind'];
export type FrameOf<K extends Kind> = Extract<ServerMessage, { kind: K }>;

const PATIENCE_MS = 15_000;

export type RawWorker = {
  /** Sends a text or bytes as they are and anything else as JSON. */
  send(frame: object | string | Buffer): void;
  /** The next frame of this kind that has not been taken yet. */
  next<K extends Kind>(kind: K): Promise<FrameOf<K>>;
  /** Frames of this kind that have come and have not been taken. */
  waiting<K extends Kind>(kind: K): FrameOf<K>[];
  /** The close code. */
  readonly closed: Promise<number>;
  readonly isOpen: boolean;
  /** Reads nothing more, as a process that hangs. */
  pause(): void;
  /** Ends the socket without a word. */
  terminate(): void;
};

export type ConnectOptions = { port: number; path?: string; token?: string; headers?: Record<string, string> };

/** What an upgrade was refused with. */
export class UpgradeRefused extends Error {
  constructor(
    readonly status: number,
    readonly body: { error: { code: string; message: string } },
    readonly headers: IncomingHttpHeaders,
  ) {
    super(`${status} ${body.error.code}`);
  }
}

export function connect({ port, path = STREAM_PATH, token, headers }: ConnectOptions): Promise<RawWorker> {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers: { ...headers, ...authorization } });
  const worker = listenTo(socket);
  return new Promise((resolve, reject) => {
    socket.on('open', () => resolve(worker));
    socket.on('error', reject);
    socket.on('unexpected-response', (_, response) => {
      let text = '';
      response.on('data', (part) => {
        text += String(part);
      });
      response.on('end', () => {
        reject(new UpgradeRefused(response.statusCode ?? 0, JSON.parse(text), response.headers));
        socket.terminate();
      });
    });
  });
}

function listenTo(socket: WebSocket): RawWorker {
  const frames: ServerMessage[] = [];
  const wakers = new Set<() => void>();
  const wake = () => {
    for (const waker of wakers) waker();
  };
  let closeCode: number | undefined;
  socket.on('message', (data) => {
    frames.push(JSON.parse(String(data)));
    wake();
  });
  const closed = new Promise<number>((resolve) => {
    socket.on('close', (code) => {
      closeCode = code;
      wake();
      resolve(code);
    });
  });

  return {
    closed,
    get isOpen() {
      return socket.readyState === WebSocket.OPEN;
    },
    send(frame) {
      socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
    },
    next(kind) {
      return new Promise((resolve, reject) => {
        const fail = (why: string) => {
          stop();
          reject(new Error(`no frame ${kind}: ${why}, came ${JSON.stringify(frames).slice(0, 500)}`));
        };
        const limit = setTimeout(fail, PATIENCE_MS, `waited ${PATIENCE_MS} ms`);
        const stop = () => {
          clearTimeout(limit);
          wakers.delete(look);
        };
        const look = () => {
          const index = frames.findIndex((frame) => frame.kind === kind);
          if (index >= 0) {
            stop();
            resolve(frames.splice(index, 1)[0] as FrameOf<typeof kind>);
          } else if (closeCode !== undefined) fail(`the connection was closed with ${closeCode}`);
        };
        wakers.add(look);
        look();
      });
    },
    waiting: (kind) => frames.filter((frame) => frame.kind === kind) as FrameOf<typeof kind>[],
    pause: () => socket.pause(),
    terminate: () => socket.terminate(),
  };
}

/** The key of every session that a test opens, unless it names another. */
export const RESUME_KEY = 'k'.repeat(43);

/** What such a session is proven by. */
export const PROOF = proofOf({ resumeKey: RESUME_KEY } as Hello, 'token');

/** Sessions of a journal. */
export function previously(...ids: string[]): PreviousSession[] {
  return ids.map((id) => ({ id, resumeKey: RESUME_KEY }));
}

/** Grows over all sessions, and so within each. */
let nextConnection = 1;

export function helloOf(given: Partial<Hello> = {}): Hello {
  return {
    kind: 'hello',
    version: STREAM_VERSION,
    sessionId: newId(),
    resumeKey: RESUME_KEY,
    connection: nextConnection++,
    name: 'raw',
    host: 'test',
    pid: 1,
    sdk: 'raw/1',
    types: ['work'],
    slots: 10,
    window: 10,
    holds: [],
    ...given,
  };
}

/** Connects and is welcomed. */
export async function register(port: number, given: Partial<Hello> = {}) {
  const worker = await connect({ port });
  const hello = helloOf(given);
  worker.send(hello);
  const welcome = await worker.next('welcome');
  return { worker, hello, welcome };
}

export function succeeded(grant: Grant, more: object = {}) {
  return { kind: 'succeeded', id: grant.id, fence: grant.fence, runMs: 1, ...more };
}
