/** Which WebSocket stream a request for an upgrade is for, and an answer for those that get none. */
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { DroverError } from '@drover/protocol';

export type Stream = {
  /** Throws DroverError for a request that may not open it. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
};

/** Gives each stream the upgrades at its path. */
export function routeUpgrades(server: Server, streams: Readonly<Record<string, Stream>>): void {
  server.on('upgrade', (request, socket, head) => {
    try {
      const path = request.url?.split('?', 1)[0] ?? '';
      const stream = Object.hasOwn(streams, path) ? streams[path] : undefined;
      if (!stream) throw new DroverError('not_found', `there is no stream at ${request.url}`);
      stream.upgrade(request, socket, head);
    } catch (error) {
      reject(socket, error instanceof DroverError ? error : new DroverError('internal', 'the upgrade failed'));
    }
  });
}

/** Answers an upgrade with an ordinary HTTP error, so that any client can read the reason. */
function reject(socket: Duplex, error: DroverError): void {
  const body = JSON.stringify(error.toBody());
  socket.on('error', () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${error.status} ${error.code}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
