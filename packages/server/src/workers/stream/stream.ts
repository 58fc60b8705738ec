/**
 * The worker stream, the WebSocket transport of workers: accepts WebSocket connections, authenticates them, and turns
 * frames into calls. See worker-messages in the protocol for the messages, and why every frame may be lost or
 * repeated.
 *
 * Invariants: a connection says `hello` first; nothing is sent to a worker before its session is durable; a frame
 * that violates the protocol ends the connection with the reason, never the server.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { DroverError, LIMITS } from '@drover/protocol';
import { type WebSocket, WebSocketServer } from 'ws';
import { identityOf, type Principal } from '../../access/principal.js';
import { createQuota } from '../../base/quota.js';
import type { Stream } from '../../sockets/upgrades.js';
import { createWorkerConnection, type WorkerConnectionDeps } from './connection.js';
import { createFlow } from './flow.js';
import { MOVE_ON } from './frames.js';

export type WorkerStream = Stream & {
  /** Tells every worker to move to another server and closes when they have gone, or after `graceMs`. */
  stop(graceMs: number): Promise<void>;
};

type StreamDeps = WorkerConnectionDeps & {
  /** Rejects with DroverError unless the request may speak as a worker. */
  authorize(request: IncomingMessage): Promise<{ principal: Principal }>;
  /** Calls `end` when the credential of the worker becomes invalid. Returns the function that stops the watch. */
  watch(principal: Principal, end: () => void): () => void;
  helloTimeoutMs?: number;
  streamsPerCaller?: number;
};

const HELLO_TIMEOUT_MS = 10_000;

export function createWorkerStream(deps: StreamDeps): WorkerStream {
  const { helloTimeoutMs = HELLO_TIMEOUT_MS, streamsPerCaller = LIMITS.tokenSessions } = deps;
  const sockets = new Set<WebSocket>();
  const server = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: LIMITS.frameBytes });
  const places = createQuota(streamsPerCaller);
  let stopping = false;

  function accept(socket: WebSocket, carrier: Duplex, principal: Principal): void {
    sockets.add(socket);
    const connection = createWorkerConnection(deps, {
      principal,
      get backlogBytes() {
        return socket.bufferedAmount;
      },
      send: (frame) => socket.send(frame),
      close: (reason) => socket.close(1008, reason.slice(0, 120)),
      terminate: () => socket.terminate(),
    });
    // Only until the hello arrives. The database's part in the answer is not the worker's fault, and has its own
    // deadline.
    const helloLimit = setTimeout(() => {
      if (connection.isGreeted) return;
      connection.refuse(new DroverError('invalid_request', `no hello within ${helloTimeoutMs / 1000} seconds`));
    }, helloTimeoutMs);
    const unwatch = deps.watch(principal, () =>
      connection.refuse(new DroverError('unauthenticated', 'the token of this worker was revoked or has expired')),
    );
    const flow = createFlow(socket, carrier);
    socket.on('message', (data, isBinary) => {
      if (isBinary) return connection.refuse(new DroverError('invalid_request', 'frames are JSON text'));
      const text = data.toString();
      flow.received(text.length, connection.receive(text));
    });
    socket.on('error', (error) =>
      deps.logger.debug({ event: 'connection.failed', err: error }, 'a worker connection failed'),
    );
    socket.on('close', () => {
      clearTimeout(helloLimit);
      unwatch();
      sockets.delete(socket);
      connection.closed();
    });
  }

  return {
    async upgrade(request, socket, head) {
      if (stopping) throw stoppingError();
      const { principal } = await deps.authorize(request);
      // meanwhile it may have begun to stop
      if (stopping) throw stoppingError();
      const leave = places.enter(identityOf(principal));
      if (!leave) throw tooManyStreams(principal, streamsPerCaller);
      request.socket.once('close', leave);
      server.handleUpgrade(request, socket, head, (opened) => accept(opened, socket, principal));
    },
    async stop(graceMs) {
      stopping = true;
      const gone = [...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
      for (const socket of sockets) socket.send(MOVE_ON);
      const limit = new Promise((resolve) => setTimeout(resolve, graceMs).unref());
      await Promise.race([Promise.all(gone), limit]);
      for (const socket of sockets) socket.terminate();
      server.close();
    },
  };
}

function tooManyStreams({ name }: Principal, limit: number): DroverError {
  const message = `"${name}" has ${limit} workers on this server already, which is the limit`;
  return new DroverError('overloaded', message, { limit });
}

function stoppingError(): DroverError {
  return new DroverError('shutting_down', 'this server is stopping');
}
