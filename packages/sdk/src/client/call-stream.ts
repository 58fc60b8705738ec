/**
 * A WebSocket to one server that makes requests cheaper than HTTP (see calls in the protocol).
 *
 * Invariant: every call settles, with its answer or with the end of the connection. The socket keeps the process
 * alive only while a call waits and for up to one watch interval after, as an idle HTTP connection does.
 */
import type { Socket } from 'node:net';
import { CALLS_PATH, callText, parseAnswer } from '@drover/protocol';
import { LIMITS } from '@drover/protocol/limits';
import { WebSocket } from 'ws';
import { TimeoutError } from '../errors.js';
import { readTls, type TlsSources } from '../tls.js';
import { type HttpAnswer, noAnswerWithin, type ServerAddress } from './http-transport.js';

const HANDSHAKE_MS = 5000;
/** How late it may be noticed that an answer is overdue or that no call waits any more. */
const WATCH_MS = 50;

/** The same for every server. */
export type Access = { token: string | undefined; tls: TlsSources };

type Waiting = {
  resolve: (answer: HttpAnswer) => void;
  reject: (error: Error) => void;
  timeoutMs: number;
  /** On the monotonic clock. */
  giveUpAt: number;
};

export class CallStream {
  readonly #server: ServerAddress;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, Waiting>();
  #tcp: Socket | undefined;
  /** Runs while the socket keeps the process alive; one timer for all calls. */
  #watch: NodeJS.Timeout | undefined;
  #last = 0;
  #wasOpen = false;
  #failure: Error | undefined;

  /** `ended` is called once. It says whether the server had accepted the connection. */
  constructor(server: ServerAddress, { token, tls }: Access, ended: (wasOpen: boolean) => void) {
    this.#server = server;
    const socket = new WebSocket(`${server.href.replace(/^http/, 'ws').replace(/\/+$/, '')}${CALLS_PATH}`, {
      ...(server.secure ? readTls(tls) : {}),
      perMessageDeflate: false,
      // answers are JSON; invalid UTF-8 in them only shows as a replacement character
      skipUTF8Validation: true,
      maxPayload: LIMITS.requestBytes,
      handshakeTimeout: HANDSHAKE_MS,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      finishRequest(request) {
        request.on('socket', (tcp) => tcp.unref());
        request.end();
      },
    });
    this.#socket = socket;
    socket.on('upgrade', ({ socket: tcp }) => {
      this.#tcp = tcp;
    });
    socket.on('open', () => {
      this.#wasOpen = true;
    });
    socket.on('message', (data) => this.#receive(String(data)));
    socket.on('error', (error) => {
      this.#failure ??= error;
    });
    socket.on('close', (code) => {
      this.#rejectAll(this.#failure ?? new Error(`the connection was closed with code ${code}`));
      ended(this.#wasOpen);
    });
  }

  /** Whether another call fits: the server limits how many may wait for their answers. */
  get isFree(): boolean {
    return this.#socket.readyState === WebSocket.OPEN && this.#waiting.size < LIMITS.callsUnderWay / 2;
  }

  call(body: string, timeoutMs: number): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const number = ++this.#last;
      this.#waiting.set(number, { resolve, reject, timeoutMs, giveUpAt: performance.now() + timeoutMs });
      if (this.#watch === undefined) this.#startWatch();
      // bytes are sent in one piece with the head of their frame; a string is not
      this.#socket.send(Buffer.from(callText(number, body)), { binary: false });
    });
  }

  close(): void {
    this.#failure ??= new Error('the client is closed');
    this.#socket.terminate();
  }

  #receive(text: string): void {
    const answer = parseAnswer(text);
    const waiting = answer && this.#waiting.get(answer.number);
    if (!waiting) {
      this.#failure ??= new Error(`${this.#server.href} sent an unexpected frame`);
      this.#socket.terminate();
      return;
    }
    this.#waiting.delete(answer.number);
    const { status, body, retryAfterS } = answer;
    waiting.resolve({ status, text: body, retryAfterMs: retryAfterS === undefined ? undefined : retryAfterS * 1000 });
  }

  #startWatch(): void {
    this.#tcp?.ref();
    this.#watch = setInterval(() => {
      const now = performance.now();
      for (const { giveUpAt, timeoutMs } of this.#waiting.values()) if (giveUpAt <= now) this.#giveUp(timeoutMs);
      if (this.#waiting.size === 0) this.#stopWatch();
    }, WATCH_MS).unref();
  }

  #stopWatch(): void {
    clearInterval(this.#watch);
    this.#watch = undefined;
    this.#tcp?.unref();
  }

  /** A server that leaves one call unanswered would leave the next ones unanswered too. */
  #giveUp(timeoutMs: number): void {
    this.#failure ??= new TimeoutError(noAnswerWithin(this.#server.href, timeoutMs));
    this.#socket.terminate();
  }

  #rejectAll(error: Error): void {
    this.#stopWatch();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
