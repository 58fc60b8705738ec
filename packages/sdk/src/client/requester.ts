/**
 * Sends a request to any server that answers: repeats it on the next server until one answers, the tries are used up,
 * or the deadline has passed.
 *
 * Every request is safe to repeat. Reads change nothing, an enqueue carries its ids, and a repeated change of a job
 * is refused with a state that shows that the change was made (`doneIn`). So a lost answer never fails a call.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { DroverError, type ErrorCode, type JobState } from '@drover/protocol';
import { describeConnectError, lacksTls } from '../connect-error.js';
import { ConnectionError } from '../errors.js';
import { serverError } from '../server-error.js';
import type { TlsSources } from '../tls.js';
import { type HttpAnswer, type RequestText, type ServerAddress, serverAddress } from './http-transport.js';
import { Transport } from './transport.js';

const FIRST_PAUSE_MS = 100;
const PAUSE_FACTOR = 3;
const LONGEST_PAUSE_MS = 5000;
/** A single try gets this share of the deadline, so that a server that hangs leaves time for another. */
const SHARE_OF_DEADLINE = 1 / 3;
const SHOWN_BODY_LENGTH = 200;

export type ApiRequest = {
  method: string;
  path: string;
  body?: RequestText | undefined;
  /** How long the server may wait before it answers. */
  waitMs?: number | undefined;
  /** Default: JSON. */
  mediaType?: string | undefined;
  /** Whether a call stream can carry the request. */
  isCall?: boolean | undefined;
  /** States that mean that an earlier, unanswered try has succeeded. */
  doneIn?: readonly JobState[] | undefined;
  signal?: AbortSignal | undefined;
};

export type RequesterOptions = {
  urls: readonly string[];
  token: string | undefined;
  tls: TlsSources;
  timeoutMs: number;
  retries: number;
};

type Failure = { error: Error; repeatable: boolean; retryAfterMs?: number | undefined };

export class Requester {
  readonly #transport: Transport;
  readonly #servers: readonly ServerAddress[];
  readonly #options: RequesterOptions;
  /** Index of the server that answered last. All calls use it until it fails. */
  #current = 0;
  #closed = false;

  constructor(options: RequesterOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
    this.#servers = options.urls.map(serverAddress);
  }

  /** The parsed body of a successful answer. Undefined if an earlier, unanswered try has already made the change. */
  async request(request: ApiRequest): Promise<unknown> {
    const waitMs = request.waitMs ?? 0;
    const deadline = performance.now() + this.#options.timeoutMs + waitMs;
    let mayBeDone = false;
    for (let tries = 0; ; tries++) {
      if (this.#closed) throw new ConnectionError('the client is closed');
      const index = this.#current;
      const server = this.#servers[index] as ServerAddress;
      const timeoutMs = waitMs + this.#options.timeoutMs * SHARE_OF_DEADLINE;
      const leftMs = deadline - performance.now();
      let answer: { body: unknown } | Failure;
      try {
        answer = read(
          await this.#transport.send(server, {
            ...request,
            // retries use HTTP, in case the stream itself is the cause
            isCall: tries === 0 && request.isCall,
            timeoutMs: Math.min(timeoutMs, Math.max(1, leftMs)),
          }),
          server,
        );
      } catch (cause) {
        answer = noAnswer(cause, server);
      }
      if (!('error' in answer)) return answer.body;
      if (mayBeDone && isDone(answer.error, request.doneIn)) return undefined;
      request.signal?.throwIfAborted();
      if (!isRefusal(answer.error)) mayBeDone = true;
      const pauseMs = this.#pauseMs(tries, answer);
      const isLast = tries >= this.#options.retries || performance.now() + pauseMs >= deadline || this.#closed;
      if (!answer.repeatable || isLast) throw answer.error;
      if (this.#current === index) this.#current = (index + 1) % this.#servers.length;
      if (pauseMs > 0) await sleep(pauseMs, undefined, request.signal ? { signal: request.signal } : {});
    }
  }

  close(): void {
    this.#closed = true;
    this.#transport.close();
  }

  /** Tries each other server at once, and pauses only when all have failed. */
  #pauseMs(tries: number, failure: Failure): number {
    if (tries + 1 < this.#servers.length) return 0;
    const round = tries + 1 - this.#servers.length;
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * PAUSE_FACTOR ** round);
    return Math.max(failure.retryAfterMs ?? 0, pauseMs * (0.5 + Math.random() / 2));
  }
}

/** Whether nothing was added and nothing will be: refused before acceptance, or for its content. */
function isRefusal(error: Error): boolean {
  if (!(error instanceof DroverError)) return false;
  return error.code === 'shutting_down' || [400, 413, 429].includes(error.status);
}

function isDone(error: Error, states: readonly JobState[] = []): boolean {
  if (!(error instanceof DroverError) || error.code !== 'wrong_state') return false;
  const state = (error.details as { state?: JobState } | null | undefined)?.state;
  return state !== undefined && states.includes(state);
}

function noAnswer(cause: unknown, server: ServerAddress): Failure {
  const error = new ConnectionError(`no answer from ${server.href}: ${describeConnectError(cause)}`, { cause });
  return { error, repeatable: !lacksTls(cause) };
}

function read(answer: HttpAnswer, server: ServerAddress): { body: unknown } | Failure {
  return answer.status >= 200 && answer.status < 300 ? readBody(answer, server) : refusal(answer, server);
}

function readBody(answer: HttpAnswer, server: ServerAddress): { body: unknown } | Failure {
  try {
    return { body: JSON.parse(answer.text) as unknown };
  } catch (cause) {
    const error = new ConnectionError(`${server.href} did not answer with JSON: ${shorten(answer.text)}`, { cause });
    return { error, repeatable: false };
  }
}

function refusal(answer: HttpAnswer, server: ServerAddress): Failure {
  const error = serverError(answer.text);
  if (error) return { error, repeatable: error.retryable, retryAfterMs: answer.retryAfterMs };
  // Not Drover's error format: a proxy in between, or not a Drover server.
  const message = `${server.href} answered with status ${answer.status}: ${shorten(answer.text)}`;
  const repeatable = [429, 502, 503, 504].includes(answer.status);
  return { error: new DroverError(codeOf(answer.status), message), repeatable, retryAfterMs: answer.retryAfterMs };
}

const CODES: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  413: 'request_too_large',
  429: 'overloaded',
};

function codeOf(status: number): ErrorCode {
  return CODES[status] ?? (status < 500 ? 'invalid_request' : 'internal');
}

function shorten(text: string): string {
  return text.length > SHOWN_BODY_LENGTH ? `${text.slice(0, SHOWN_BODY_LENGTH)}…` : text;
}
