/**
 * Sends one request to one server, over HTTP or over a call stream. A client that adds a second job opens a stream in
 * the background. Until it is open, and wherever none is possible (a proxy without WebSockets, a broken stream),
 * requests use HTTP.
 */
import { type Access, CallStream } from './call-stream.js';
import { type HttpAnswer, type HttpRequest, HttpTransport, type ServerAddress } from './http-transport.js';

/** `isCall`: a call stream can carry the request. */
type TransportRequest = HttpRequest & { isCall?: boolean | undefined };

/** Longest body that goes over the stream. Masking a longer one costs more than HTTP. */
const MAX_CALL_LENGTH = 64 * 1024;
const REQUESTS_BEFORE_STREAM = 2;
/** Pause before the next stream: after one that was open, and after one that could not be opened. */
const PAUSE_AFTER_END_MS = 1000;
const PAUSE_AFTER_REFUSAL_MS = 60_000;

type Line = { stream: CallStream | undefined; requests: number; notBefore: number };

export class Transport {
  readonly #http: HttpTransport;
  readonly #access: Access;
  readonly #lines = new Map<string, Line>();

  constructor(access: Access) {
    this.#access = access;
    this.#http = new HttpTransport(access.token, access.tls);
  }

  /** Resolves with the answer, whatever its status. Rejects if there is none. */
  send(server: ServerAddress, request: TransportRequest): Promise<HttpAnswer> {
    if (request.isCall && request.body !== undefined && request.body.length <= MAX_CALL_LENGTH) {
      const stream = this.#streamTo(server);
      if (stream?.isFree) return stream.call(request.body.toString(), request.timeoutMs);
    }
    return this.#http.send(server, request);
  }

  /** Destroys every socket, also those in use. */
  close(): void {
    this.#http.close();
    for (const { stream } of this.#lines.values()) stream?.close();
  }

  #streamTo(server: ServerAddress): CallStream | undefined {
    const line = this.#lines.get(server.href) ?? { stream: undefined, requests: 0, notBefore: 0 };
    this.#lines.set(server.href, line);
    line.requests += 1;
    if (!line.stream && line.requests >= REQUESTS_BEFORE_STREAM && performance.now() >= line.notBefore) {
      line.stream = new CallStream(server, this.#access, (wasOpen) => {
        line.stream = undefined;
        line.notBefore = performance.now() + (wasOpen ? PAUSE_AFTER_END_MS : PAUSE_AFTER_REFUSAL_MS);
      });
    }
    return line.stream;
  }
}
