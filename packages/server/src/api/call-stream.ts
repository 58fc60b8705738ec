/**
 * The call stream: requests of the HTTP API over a WebSocket (see calls in the protocol). The handlers, checks and
 * errors are those of HTTP. The caller is authenticated once, when the connection is opened.
 *
 * Invariants: a call gets one answer, unless its connection ends first; a frame that is not a call ends the
 * connection with the reason.
 */
import type { Duplex } from 'node:stream';
import { answerText, CALLED_ROUTE, type CallFrame, DroverError, LIMITS, parseCall, ROUTES } from '@drover/protocol';
import type { Logger } from 'pino';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Denials } from '../access/denials.js';
import type { Caller, Principal } from '../access/principal.js';
import type { CheckRate } from '../access/request-rate.js';
import { jsonOf } from '../base/json-text.js';
import type { MemoryBudget, MemoryShare } from '../base/memory-budget.js';
import { sendText } from '../sockets/text-frame.js';
import type { Stream } from '../sockets/upgrades.js';
import { errorHeaders, logError, toDroverError } from './answer-error.js';
import type { Authorize } from './auth.js';
import type { RouteHandlers } from './route-handler.js';

export type CallStream = Stream & {
  /** Answers the calls in progress, then closes every connection; after `graceMs` without the answers. */
  stop(graceMs: number): Promise<void>;
};

type CallStreamDeps = {
  handlers: Pick<RouteHandlers, typeof CALLED_ROUTE>;
  authorize: Authorize;
  denials: Denials;
  checkRate: CheckRate;
  /** Calls `end` when the credential of the caller becomes invalid. Returns the function that stops the watch. */
  watch(principal: Principal, end: () => void): () => void;
  logger: Logger;
  /** Counts the requests in progress. */
  memory: MemoryBudget;
};

/** The first line of a call comes before its body. */
const MAX_FRAME_BYTES = LIMITS.requestBytes + 100;
/** How long a vanished client may go unnoticed on a silent connection. */
const KEEP_ALIVE_MS = 60_000;
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
const TOO_MANY = `more than ${LIMITS.callsUnderWay} calls wait for their answers`;
const ROUTE = ROUTES[CALLED_ROUTE];

export function createCallStream(deps: CallStreamDeps): CallStream {
  const { handlers, authorize, denials, checkRate, watch, logger, memory } = deps;
  const server = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: MAX_FRAME_BYTES });
  const sockets = new Set<WebSocket>();
  let underWay = 0;
  let stopping = false;
  let allAnswered = () => {};

  function accept(socket: WebSocket, carrier: Duplex, caller: Caller): void {
    let calls = 0;
    sockets.add(socket);
    socket.on('error', (error) => logger.debug({ event: 'connection.failed', err: error }, 'a call stream failed'));
    const unwatch = watch(caller.principal, () => socket.close(POLICY_VIOLATION, 'unauthenticated'));
    socket.on('close', () => {
      unwatch();
      sockets.delete(socket);
    });
    const arriving = memory.share(caller.principal);
    socket.on('close', arriving.release);
    // before the listener of ws, which may emit the last message of this chunk
    carrier.prependListener('data', (chunk: Buffer) => {
      try {
        arriving.take(chunk.length);
      } catch {
        // the client repeats its calls over HTTP, which can refuse them one by one
        socket.terminate();
      }
    });
    socket.on('message', (data, isBinary) => {
      arriving.release();
      const call = isBinary ? undefined : parseCall(data.toString());
      if (!call) return socket.close(POLICY_VIOLATION, 'expected the number of the call on the first line');
      if (++calls > LIMITS.callsUnderWay) return socket.close(POLICY_VIOLATION, TOO_MANY);
      underWay += 1;
      const share = memory.share(caller.principal);
      void answerCall(call, caller, { handlers, denials, checkRate, logger, share }).then((text) => {
        share.release();
        // counted until it is sent, so that a client that does not read its answers cannot fill our memory
        sendText(socket, carrier, text, () => {
          calls -= 1;
        });
        underWay -= 1;
        if (underWay === 0) allAnswered();
      });
    });
  }

  return {
    async upgrade(request, socket, head) {
      if (stopping) throw stoppingError();
      const caller = await authorize(request);
      // meanwhile it may have begun to stop
      if (stopping) throw stoppingError();
      request.socket.setKeepAlive(true, KEEP_ALIVE_MS);
      server.handleUpgrade(request, socket, head, (opened) => accept(opened, socket, caller));
    },
    async stop(graceMs) {
      stopping = true;
      const gone = [...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
      const limit = new Promise((resolve) => setTimeout(resolve, graceMs).unref());
      const answered = new Promise<void>((resolve) => {
        allAnswered = resolve;
        if (underWay === 0) resolve();
      });
      await Promise.race([answered, limit]);
      for (const socket of sockets) socket.close(GOING_AWAY, 'this server is stopping');
      await Promise.race([Promise.all(gone), limit]);
      for (const socket of sockets) socket.terminate();
      server.close();
    },
  };
}

function stoppingError(): DroverError {
  return new DroverError('shutting_down', 'this server is stopping; send the request to another one');
}

/** Never rejects: an error is an answer too. */
async function answerCall(
  { number, body }: CallFrame,
  by: Caller,
  {
    handlers,
    denials,
    checkRate,
    logger,
    share,
  }: Pick<CallStreamDeps, 'handlers' | 'denials' | 'checkRate' | 'logger'> & { share: MemoryShare },
): Promise<string> {
  let status: number = ROUTE.status;
  try {
    checkRate(by.principal);
    share.take(body.length);
    const found = await handlers[CALLED_ROUTE]({
      ...{ params: undefined, query: undefined, body, by },
      gone: () => new AbortController().signal,
      setStatus(other) {
        status = other;
      },
    });
    return answerText({ number, status, retryAfterS: undefined, body: String(jsonOf(found)) });
  } catch (error) {
    const known = toDroverError(error);
    if (known.code === 'forbidden') denials.note(by, known);
    logError(logger, known, { method: ROUTE.method, url: ROUTE.path });
    const retryAfter = errorHeaders(known)['retry-after'];
    const retryAfterS = retryAfter === undefined ? undefined : Number(retryAfter);
    return answerText({ number, retryAfterS, status: known.status, body: JSON.stringify(known.toBody()) });
  }
}
