/** Routes upgrade requests to WebSocket streams, and answers those without a stream. */
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { DroverError } from '@drover/protocol';

export type Stream = {
  /** Rejects with DroverError for a request that may not open it. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>;
};

type UpgradeOptions = {
  /** Rejects unless the caller is known. Others must not learn which paths exist. */
  requireKnown(request: IncomingMessage): Promise<unknown>;
  /** Called with each connection that has become a stream. */
  opened(socket: Socket): void;
  /** The headers of an error, as over HTTP. */
  headersOf(error: DroverError): Readonly<Record<string, string>>;
};

/** Passes each stream the upgrades at its path. */
export function routeUpgrades(
  server: Server,
  streams: Readonly<Record<string, Stream>>,
  { requireKnown, opened, headersOf }: UpgradeOptions,
): void {
  server.on('upgrade', async (request, socket, head) => {
    // it may end while its credential is looked up
    socket.on('error', () => socket.destroy());
    try {
      const path = request.url?.split('?', 1)[0] ?? '';
      const stream = Object.hasOwn(streams, path) ? streams[path] : undefined;
      if (!stream) await requireKnown(request);
      if (!stream) throw new DroverError('not_found', `there is no stream at ${request.url}`);
      await stream.upgrade(request, socket, head);
      opened(request.socket);
    } catch (error) {
      const known = error instanceof DroverError ? error : new DroverError('internal', 'the upgrade failed');
      reject(socket, known, headersOf(known));
    }
  });
}

/** Answers an upgrade with an ordinary HTTP error, so that any client can read the reason. */
function reject(socket: Duplex, error: DroverError, more: Readonly<Record<string, string>>): void {
  const body = JSON.stringify(error.toBody());
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
    ...more,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${error.status} ${error.code}\r\n${lines.join('')}\r\n${body}`);
}
