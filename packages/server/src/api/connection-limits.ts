/**
 * Bounds the connections of a server: all together, and for each address those whose caller is not known yet. So a peer
 * without a token cannot take the places of others, however slowly it speaks.
 */
import type { Server, Socket } from 'node:net';
import { LIMITS } from '@drover/protocol';
import type { Logger } from 'pino';
import { createQuota } from '../base/quota.js';

export type ConnectionLimits = {
  /** A request of a known caller has come over this connection. */
  know(socket: Socket): void;
};

/** Refusals come in crowds, and the log has one line for each of these periods. */
const LOG_PERIOD_MS = 60_000;

export function limitConnections(
  server: Server,
  logger: Logger,
  { connections, unknownConnections }: { connections: number; unknownConnections: number } = LIMITS,
): ConnectionLimits {
  const unknown = createQuota(unknownConnections);
  /** By address and port, because a TLS socket is another object than its connection. */
  const places = new Map<string, () => void>();
  let loggedAt = Number.NEGATIVE_INFINITY;

  function noteRefused(address: string | undefined, limit: number): void {
    const now = performance.now();
    if (now - loggedAt < LOG_PERIOD_MS) return;
    loggedAt = now;
    logger.warn({ event: 'connections.full', address, limit }, 'connection was refused: too many');
  }

  // Node refuses the others before they are read
  server.maxConnections = connections;
  server.on('drop', (data) => noteRefused(data?.remoteAddress, connections));
  server.on('connection', (socket: Socket) => {
    const place = unknown.enter(socket.remoteAddress ?? '');
    if (!place) {
      noteRefused(socket.remoteAddress, unknownConnections);
      socket.destroy();
      return;
    }
    const name = nameOf(socket);
    places.set(name, place);
    socket.once('close', () => {
      places.delete(name);
      place();
    });
  });

  return { know: (socket) => places.get(nameOf(socket))?.() };
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
