/**
 * Keeps one connection to one of the servers for as long as the worker is started. When it is lost, the
 * next server is tried, with a growing, random pause, without end: a worker may start before its servers
 * and outlive them.
 *
 * What always holds: `lost` is called exactly once for each `welcome`, and before the next one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { DroverError } from '@drover/protocol';
import type { LogFields } from '../../logger.js';
import { within } from '../within.js';
import type { ServerList } from './server-list.js';
import { type Access, type LinkMessage, type StreamEnd, StreamSocket, type Welcome } from './stream-socket.js';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
/** A connection that stood this long was good: the next one is tried without a long pause. */
const GOOD_AFTER_MS = 5000;
/** For the server to note that the worker has left. */
const GOODBYE_MS = 2000;

export type ConnectionEvents = {
  /** Open and waiting for `sayHello`. */
  opened: () => void;
  welcome: (message: Welcome, url: string) => void;
  /** A frame for those who run jobs, as it came. */
  frame: (text: string) => void;
  message: (message: LinkMessage) => void;
  lost: () => void;
  /** A server has answered, but not with a welcome. */
  refused: (error: DroverError, url: string) => void;
  log: (fields: LogFields, message: string) => void;
};

export class Connection {
  readonly #servers: ServerList;
  readonly #access: Access;
  readonly #events: ConnectionEvents;
  readonly #stopped = new AbortController();
  #loop: Promise<void> | undefined;
  #socket: StreamSocket | undefined;
  /** A server that asked us to go elsewhere. */
  #avoid: string | undefined;
  #number = 0;

  constructor(servers: ServerList, access: Access, events: ConnectionEvents) {
    this.#servers = servers;
    this.#access = access;
    this.#events = events;
  }

  /** Tells this connection from earlier ones: what was meant for another must not be sent on it. */
  get number(): number {
    return this.#number;
  }

  /** Answers `opened`. */
  sayHello(text: string): void {
    this.#socket?.sayHello(text);
  }

  /** `done` is called exactly once, whether it was sent or not. */
  send(frame: string, done: () => void): void {
    if (this.#socket === undefined) done();
    else this.#socket.send(frame, done);
  }

  start(): void {
    this.#loop ??= this.#keepConnected();
  }

  /** Sends the last frame and waits, for a moment, until the server has acted on it and closed. */
  async sayGoodbye(frame: string): Promise<void> {
    this.#stopped.abort();
    const socket = this.#socket;
    if (!socket?.isReady) return;
    socket.send(frame, () => {});
    await within(socket.ended, GOODBYE_MS);
  }

  /** Closes for good; resolves when the socket is gone. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#socket?.close();
    await this.#loop;
  }

  /** Leaves this server for another one. */
  moveOn(): void {
    this.#avoid = this.#socket?.url;
    this.#socket?.close();
  }

  /** Nothing can be waited for: the other side is silent, or cannot be understood. */
  fail(reason: string): void {
    this.#socket?.fail(reason);
  }

  async #keepConnected(): Promise<void> {
    let failures = 0;
    while (!this.#stopped.signal.aborted) {
      const url = this.#servers.next(this.#avoid);
      // once: if the others cannot be reached, the one that was left is better than none
      this.#avoid = undefined;
      const end = await this.#connect(url);
      if (this.#stopped.signal.aborted) return;
      failures = end.stoodMs > GOOD_AFTER_MS ? 0 : failures + 1;
      const pauseMs = pauseAfter(end, failures, Math.random());
      this.#events.log({ url, reason: end.reason, pauseMs }, 'not connected; trying again');
      await pause(pauseMs, this.#stopped.signal);
    }
  }

  /** One connection, from its handshake to its end. */
  async #connect(url: string): Promise<StreamEnd> {
    let isWelcomed = false;
    this.#number++;
    this.#socket = new StreamSocket(url, this.#access, {
      opened: this.#events.opened,
      frame: this.#events.frame,
      message: this.#events.message,
      welcome: (message) => {
        isWelcomed = true;
        this.#events.welcome(message, url);
      },
    });
    const end = await this.#socket.ended;
    this.#socket = undefined;
    if (isWelcomed) this.#events.lost();
    if (end.refusal) this.#events.refused(end.refusal, url);
    return end;
  }
}

/** A refusal does not pass by itself, so it gets the longest pause; the rest grows with each failure. */
export function pauseAfter(end: StreamEnd, failures: number, random: number): number {
  const limitMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1));
  const isLasting = end.refusal !== undefined && !end.refusal.retryable;
  return Math.round((isLasting ? LONGEST_PAUSE_MS : limitMs) * (0.5 + random / 2));
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // Woken by the stop, which the caller looks at next.
  }
}
