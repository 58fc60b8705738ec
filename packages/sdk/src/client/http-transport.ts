/**
 * Sends one HTTP request to one server. No retries, and no interpretation of the status.
 *
 * Uses node:http with keep-alive sockets, because `fetch` costs several times the CPU for a small body. Long polls
 * have their own sockets, so they cannot delay an enqueue.
 */
import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import { TimeoutError } from '../errors.js';
import { readTls, type TlsSources } from '../tls.js';

const MAX_SOCKETS = 64;
const MAX_WAITING_SOCKETS = 256;

/** A string, or its bytes in UTF-8. */
export type RequestText = string | Buffer;

export type HttpRequest = {
  method: string;
  path: string;
  body?: RequestText | undefined;
  /** Media type of the body. Default: JSON. */
  mediaType?: string | undefined;
  timeoutMs: number;
  /** The answer is expected to take long. */
  waits?: boolean | undefined;
  signal?: AbortSignal | undefined;
};

export type HttpAnswer = { status: number; text: string; retryAfterMs: number | undefined };

/** A base address, parsed once. */
export type ServerAddress = { href: string; secure: boolean; hostname: string; port: string; basePath: string };

export function serverAddress(href: string): ServerAddress {
  const url = new URL(href);
  return {
    href,
    secure: url.protocol === 'https:',
    // In a URL an IPv6 address has brackets; in a socket's options it has none.
    hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port,
    basePath: url.pathname.replace(/\/+$/, ''),
  };
}

export class HttpTransport {
  readonly #plain = agents(HttpAgent);
  readonly #secure: Pools<HttpsAgent>;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(token: string | undefined, tls: TlsSources) {
    this.#secure = agents(secureAgent(tls));
    this.#headers = { accept: 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
  }

  /** Resolves with the answer, whatever its status. Rejects if there is none. */
  send(server: ServerAddress, request: HttpRequest): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const pools = server.secure ? this.#secure : this.#plain;
      const outgoing = (server.secure ? httpsRequest : httpRequest)({
        agent: request.waits ? pools.waiting : pools.prompt,
        host: server.hostname,
        port: server.port,
        path: server.basePath + request.path,
        method: request.method,
        headers: this.#headersOf(request),
        ...(request.signal ? { signal: request.signal } : {}),
      });
      const timer = setTimeout(giveUp, request.timeoutMs, outgoing, server.href, request.timeoutMs);
      outgoing.on('error', (error) => {
        clearTimeout(timer);
        reject(error);
      });
      outgoing.on('response', (incoming) => {
        readAnswer(incoming, (error, answer) => {
          clearTimeout(timer);
          if (answer) resolve(answer);
          else reject(error);
        });
      });
      outgoing.end(request.body);
    });
  }

  #headersOf({ body, mediaType = 'application/json' }: HttpRequest): Readonly<Record<string, string>> {
    return body === undefined ? this.#headers : { ...this.#headers, 'content-type': mediaType };
  }

  /** Destroys every socket, also those in use. */
  close(): void {
    for (const pools of [this.#plain, this.#secure]) {
      pools.prompt.destroy();
      pools.waiting.destroy();
    }
  }
}

type Pools<Agent> = { prompt: Agent; waiting: Agent };

type Created = (error: Error | null, socket: Duplex) => void;

/** Its sockets use the files as they are when each is opened. */
function secureAgent(tls: TlsSources): typeof HttpsAgent {
  return class extends HttpsAgent {
    override createConnection(options: RequestOptions, done?: Created) {
      try {
        return super.createConnection({ ...options, ...readTls(tls) }, done);
      } catch (error) {
        // Not thrown: Node also calls this for waiting requests, from an event.
        (done as ((error: Error) => void) | undefined)?.(error as Error);
        return undefined;
      }
    }
  };
}

function agents<Agent>(Kind: new (options: object) => Agent): Pools<Agent> {
  return {
    prompt: new Kind({ keepAlive: true, noDelay: true, maxSockets: MAX_SOCKETS }),
    waiting: new Kind({ keepAlive: true, noDelay: true, maxSockets: MAX_WAITING_SOCKETS }),
  };
}

function giveUp(outgoing: ClientRequest, href: string, timeoutMs: number): void {
  outgoing.destroy(new TimeoutError(noAnswerWithin(href, timeoutMs)));
}

export function noAnswerWithin(href: string, timeoutMs: number): string {
  return `${href} did not answer within ${Number((timeoutMs / 1000).toFixed(1))} s`;
}

function readAnswer(incoming: IncomingMessage, done: (error: Error | undefined, answer?: HttpAnswer) => void): void {
  const chunks: Buffer[] = [];
  incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
  incoming.on('error', (error) => done(error));
  incoming.on('end', () => {
    const body = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
    done(undefined, {
      status: incoming.statusCode ?? 0,
      text: body.toString('utf8'),
      retryAfterMs: retryAfterMs(incoming.headers['retry-after']),
    });
  });
}

/** Only the form in seconds: a date would be compared with a clock that may differ from the server's. */
function retryAfterMs(header: string | undefined): number | undefined {
  const seconds = Number(header);
  return header !== undefined && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}
