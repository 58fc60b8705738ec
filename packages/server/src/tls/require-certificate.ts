/**
 * Lets only connections with a verified client certificate reach the HTTP server. TLS itself could refuse the others,
 * but then the client would only see a closed connection, and Node reports nothing: so they get the reason as an
 * answer, and nothing that they send is read.
 */
import type { Server as HttpsServer } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { DroverError } from '@drover/protocol';
import type { Logger } from 'pino';

/** Limit for the client to read the answer. */
const REFUSAL_MS = 2000;

/** Call it before anything else listens to the connections of the server. */
export function requireCertificate(server: HttpsServer, logger: Logger): void {
  const accept = server.listeners('secureConnection') as ((socket: TLSSocket) => void)[];
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.authorized) for (const listener of accept) listener.call(server, socket);
    else refuse(socket, logger);
  });
}

function refuse(socket: TLSSocket, logger: Logger): void {
  const { subject } = socket.getPeerCertificate();
  // An OpenSSL code such as CERT_HAS_EXPIRED; the types say Error.
  const found = subject === undefined ? 'none' : `one that cannot be verified (${socket.authorizationError})`;
  const error = new DroverError(
    'unauthenticated',
    `expected a client certificate (cert and key) of a CA in this server's tlsClientCa, got ${found}`,
  );
  logger.debug(
    { event: 'connection.refused', address: socket.remoteAddress, reason: error.message },
    'a connection was refused',
  );
  const body = JSON.stringify(error.toBody());
  const head = `HTTP/1.1 ${error.status} Unauthorized\r\ncontent-type: application/json; charset=utf-8\r\n`;
  socket.on('error', () => socket.destroy());
  // Read and dropped: closing a connection with unread data would drop the answer.
  socket.resume();
  socket.end(`${head}content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`);
  const limit = setTimeout(() => socket.destroy(), REFUSAL_MS);
  socket.once('close', () => clearTimeout(limit));
}
