/**
 * Keeps one connection to one of the servers while the worker is started. When it is lost, the worker tries the other
 * servers one after the other. The first try waits a short random time, because all workers of a lost server
 * reconnect at once. After each round over all servers comes a random pause that grows, without a limit on rounds: a
 * worker may start before its servers and outlive them.
 *
 * Invariant: `lost` is called exactly once for each `welcome`, and before the next one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { DroverError } from '@drover/protocol';
import { within } from '@drover/protocol/within';
import type { LogFields } from '../../logger.js';
import { readTls } from '../../tls.js';
import { type Patience, pauseAfter } from './patience.js';
import { Search } from './search.js';
import type { ServerList } from './server-list.js';
import { type Access, type LinkMessage, type StreamEnd, StreamSocket, type Welcome } from './stream-socket.js';

/** A connection that lasted this long was good: pauses start short again. */
const GOOD_AFTER_MS = 5000;
/** Limit for the server to note that the worker has left. */
const GOODBYE_MS = 2000;

export type ConnectionEvents = {
  /** Open and waiting for `sayHello`. */
  opened: () => void;
  welcome: (message: Welcome, url: string) => void;
  /** A frame about jobs, unparsed. */
  frame: (text: string) => void;
  message: (message: LinkMessage) => void;
  lost: () => void;
  /** A server has answered, but not with a welcome. */
  refused: (error: DroverError, url: string) => void;
  /** The number of the next connection, greater than all before. */
  numbered: () => number;
  /** How long to wait for a server now. */
  patience: () => Patience;
  log: (level: 'info' | 'warn', fields: LogFields, message: string) => void;
};

export class Connection {
  readonly #servers: ServerList;
  readonly #access: Access;
  readonly #events: ConnectionEvents;
  readonly #stopped = new AbortController();
  #loop: Promise<void> | undefined;
  #socket: StreamSocket | undefined;
  #number = 0;
  /** Set when the server has asked the worker to move and it will. */
  #leaving: NodeJS.Timeout | undefined;

  constructor(servers: ServerList, access: Access, events: ConnectionEvents) {
    this.#servers = servers;
    this.#access = access;
    this.#events = events;
  }

  /** Distinguishes this connection from earlier ones: frames for another connection must not be sent on it. */
  get number(): number {
    return this.#number;
  }

  /** Call after `opened`. */
  sayHello(text: string): void {
    this.#socket?.sayHello(text);
  }

  /** `done` is called exactly once, whether the frame was sent or not. */
  send(frame: string, done: () => void): void {
    if (this.#socket === undefined) done();
    else this.#socket.send(frame, done);
  }

  start(): void {
    this.#loop ??= this.#keepConnected();
  }

  /** Sends the last frame and waits a short time until the server has handled it and closed. */
  async sayGoodbye(frame: string): Promise<void> {
    this.#stopped.abort();
    clearTimeout(this.#leaving);
    const socket = this.#socket;
    if (!socket?.isReady) return;
    socket.send(frame, () => {});
    await within(GOODBYE_MS, socket.ended);
  }

  /** Closes permanently. Resolves when the socket is gone. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    clearTimeout(this.#leaving);
    this.#socket?.close();
    await this.#loop;
  }

  /** Moves to another server after a delay: a server that shuts down asks all its workers at once. */
  moveOn(): void {
    const socket = this.#socket;
    if (socket === undefined || this.#leaving !== undefined) return;
    this.#leaving = setTimeout(() => socket.close(), this.#spreadMs());
  }

  /** Ends the connection at once: the other side is silent, or sends frames that cannot be parsed. */
  fail(reason: string): void {
    this.#socket?.fail(reason);
  }

  async #keepConnected(): Promise<void> {
    let rounds = 0;
    let triedInRound = 0;
    let url: string | undefined;
    const search = new Search(performance.now());
    while (!this.#stopped.signal.aborted) {
      url = this.#servers.next(url);
      const end = await this.#connect(url);
      if (this.#stopped.signal.aborted) return;
      if (end.stoodMs > GOOD_AFTER_MS) {
        rounds = 0;
        triedInRound = 0;
      }
      if (end.stoodMs > 0) search.restart(performance.now());
      triedInRound++;
      // A worker that was asked to move has waited before.
      let pauseMs = end.stoodMs > 0 && this.#leaving === undefined ? this.#spreadMs() : 0;
      clearTimeout(this.#leaving);
      this.#leaving = undefined;
      if (triedInRound >= this.#servers.urls.length) {
        triedInRound = 0;
        rounds++;
        pauseMs += pauseAfter(rounds, this.#events.patience().longestPauseMs, Math.random());
      }
      const fields = { event: 'connection.lost', url, reason: end.reason, pauseMs };
      const level = end.isMisconfigured ? 'warn' : 'info';
      this.#events.log(level, fields, 'worker is not connected to a server; connecting again');
      const report = search.failed(url, end.reason, performance.now());
      if (report) this.#events.log('warn', { event: 'connection.missing', ...report }, 'worker still finds no server');
      await pause(pauseMs, this.#stopped.signal);
    }
  }

  #spreadMs(): number {
    return Math.round(this.#events.patience().spreadMs * Math.random());
  }

  /** One connection, from its handshake to its end. */
  async #connect(url: string): Promise<StreamEnd> {
    let isWelcomed = false;
    let access: Access;
    try {
      access = { ...this.#access, tls: readTls(this.#access.tls) };
    } catch (error) {
      return { stoodMs: 0, reason: (error as Error).message, refusal: undefined, isMisconfigured: true };
    }
    this.#number = this.#events.numbered();
    this.#socket = new StreamSocket(url, access, this.#events.patience(), {
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

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // Woken by the stop, which the caller checks next.
  }
}
