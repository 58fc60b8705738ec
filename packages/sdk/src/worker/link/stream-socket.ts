/**
 * One WebSocket to one server, from its handshake to its end. It sends hello, waits for the welcome, and turns every
 * kind of refusal into one error. Frames about jobs are passed on unparsed.
 *
 * Invariants: `ended` resolves exactly once, and no event follows it. `isReady` is true only between the welcome and
 * the first sign of the end.
 */
import type { IncomingMessage } from 'node:http';
import type { ServerMessage } from '@drover/protocol';
import { DroverError, isErrorCode } from '@drover/protocol/errors';
import { LIMITS } from '@drover/protocol/limits';
import { WebSocket } from 'ws';
import { describeConnectError, isTlsProblem } from '../../connect-error.js';
import { serverError } from '../../server-error.js';
import type { TlsSources } from '../../tls.js';
import { parseFrame } from './parse-frame.js';
import type { Patience } from './patience.js';

/** Limit for the other side to answer a close before the socket is destroyed. */
const CLOSE_MS = 1000;
/** Characters that are read from the body of a refusal. */
const MAX_REFUSAL_LENGTH = 64 * 1024;
const SHOWN_FRAME_LENGTH = 200;
/** The frequent frames, in the form that servers write them. A frame in any other form is parsed here. */
const PASSED_ON_UNREAD = /^\{"kind":"(?:assign|ack)"/;

export type Welcome = Extract<ServerMessage, { kind: 'welcome' }>;
/** The messages that the link itself handles. */
export type LinkMessage = Extract<ServerMessage, { kind: 'beat' | 'moveOn' }>;

/** The same on every server. The files of `tls` have been read. */
export type Access = { path: string; token: string | undefined; tls: TlsSources };

export type StreamEvents = {
  /** The socket is open and waits for `sayHello`. */
  opened: () => void;
  welcome: (message: Welcome) => void;
  frame: (text: string) => void;
  message: (message: LinkMessage) => void;
};

/**
 * How it ended. `refusal` is set if the server answered, but not with a welcome. `isMisconfigured`: TLS failed, which
 * an operator has to fix.
 */
export type StreamEnd = {
  stoodMs: number;
  reason: string;
  refusal: DroverError | undefined;
  isMisconfigured: boolean;
};

export class StreamSocket {
  readonly url: string;
  readonly ended: Promise<StreamEnd>;
  readonly #socket: WebSocket;
  readonly #events: StreamEvents;
  readonly #welcomeTimer: NodeJS.Timeout;
  #closeTimer: NodeJS.Timeout | undefined;
  #welcomedAt: number | undefined;
  #refusal: DroverError | undefined;
  #reason: string | undefined;
  #isMisconfigured = false;

  constructor(url: string, { path, token, tls }: Access, patience: Patience, events: StreamEvents) {
    this.url = url;
    this.#events = events;
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, {
      ...tls,
      perMessageDeflate: false,
      maxPayload: LIMITS.frameBytes,
      handshakeTimeout: patience.handshakeMs,
      // A server sends only JSON that it has just encoded; validating it again costs CPU for each job.
      skipUTF8Validation: true,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    });
    this.#socket = socket;
    this.#welcomeTimer = setTimeout(() => this.fail('the server did not answer the hello'), patience.welcomeMs);
    socket.on('open', () => events.opened());
    socket.on('message', (data) => this.#receive(String(data)));
    socket.on('unexpected-response', (_request, response) => this.#readRefusal(response));
    socket.on('error', (error) => {
      this.#isMisconfigured = isTlsProblem(error);
      this.#reason ??= describeConnectError(error);
    });
    this.ended = new Promise((resolve) => {
      socket.on('close', (code) => resolve(this.#end(code)));
    });
  }

  get isReady(): boolean {
    return this.#welcomedAt !== undefined && this.#socket.readyState === WebSocket.OPEN;
  }

  sayHello(text: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text);
  }

  /** Dropped silently if the connection is lost. A caller that needs to know waits for an answer. */
  send(frame: string, done: () => void): void {
    if (this.isReady) this.#socket.send(frame, done);
    else done();
  }

  /** Sends what is buffered, then closes. */
  close(): void {
    this.#socket.close();
    this.#closeTimer ??= setTimeout(() => this.#socket.terminate(), CLOSE_MS);
  }

  /** Destroys the socket without a handshake. */
  fail(reason: string): void {
    this.#reason ??= reason;
    this.#socket.terminate();
  }

  #receive(text: string): void {
    if (this.#welcomedAt !== undefined && PASSED_ON_UNREAD.test(text)) {
      this.#events.frame(text);
      return;
    }
    const message = parseFrame(text);
    switch (message?.kind) {
      case undefined:
        this.fail(`the server sent an unexpected frame: ${text.slice(0, SHOWN_FRAME_LENGTH)}`);
        return;
      case 'refused':
        this.#refuse(new DroverError(isErrorCode(message.code) ? message.code : 'internal', message.message));
        return;
      case 'welcome':
        clearTimeout(this.#welcomeTimer);
        this.#welcomedAt = performance.now();
        this.#events.welcome(message);
        return;
      case 'beat':
      case 'moveOn':
        if (this.#welcomedAt !== undefined) this.#events.message(message);
        return;
      default:
        if (this.#welcomedAt !== undefined) this.#events.frame(text);
    }
  }

  /** The server refused the handshake; the reason is in the body of its answer. */
  #readRefusal(response: IncomingMessage): void {
    let text = '';
    response.setEncoding('utf8');
    response.on('data', (part: string) => {
      if (text.length < MAX_REFUSAL_LENGTH) text += part;
    });
    response.on('error', () => this.#socket.terminate());
    response.on('end', () => {
      const unnamed = `the server answered the handshake with status ${response.statusCode}`;
      this.#refuse(serverError(text) ?? new DroverError(codeOf(response.statusCode), unnamed));
    });
  }

  #refuse(error: DroverError): void {
    this.#refusal ??= error;
    this.close();
  }

  #end(code: number): StreamEnd {
    clearTimeout(this.#welcomeTimer);
    clearTimeout(this.#closeTimer);
    const stoodMs = this.#welcomedAt === undefined ? 0 : performance.now() - this.#welcomedAt;
    const reason = this.#refusal?.message ?? this.#reason ?? `closed with code ${code}`;
    return { stoodMs, reason, refusal: this.#refusal, isMisconfigured: this.#isMisconfigured };
  }
}

function codeOf(status: number | undefined): 'unauthenticated' | 'forbidden' | 'not_found' | 'internal' {
  if (status === 401) return 'unauthenticated';
  if (status === 403) return 'forbidden';
  return status === 404 ? 'not_found' : 'internal';
}
