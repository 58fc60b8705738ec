/**
 * Answers requests that Node's HTTP parser refuses. They never reach the router or a hook, so the answer is written
 * to the socket directly. The connection is closed, because the start of the next request is unknown.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { maxHeaderSize } from 'node:http';
import type { Socket } from 'node:net';
import { DroverError } from '@drover/protocol';

const MESSAGES: Record<string, string> = {
  HPE_HEADER_OVERFLOW: `the headers are over the limit of ${maxHeaderSize} bytes`,
  ERR_HTTP_REQUEST_TIMEOUT: 'the request did not come in whole within the time limit',
};

export function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  // The client has gone, or an earlier answer is being sent and must not be interrupted by this one.
  const { _httpMessage: underWay } = socket as Socket & { _httpMessage?: { headersSent: boolean } | null };
  if (error.code === 'ECONNRESET' || !socket.writable || underWay?.headersSent) {
    socket.destroy();
    return;
  }
  const message = MESSAGES[error.code ?? ''] ?? 'the request is not valid HTTP';
  const body = JSON.stringify(new DroverError('invalid_request', message).toBody());
  socket.end(
    `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

/** `Expect:` with a value other than 100-continue, which Node would answer with an empty 417. */
export function answerExpectation(request: IncomingMessage, response: ServerResponse): void {
  const message = `the header expect: ${String(request.headers.expect).slice(0, 100)} is not understood`;
  const body = JSON.stringify(new DroverError('invalid_request', message).toBody());
  response.writeHead(400, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}
