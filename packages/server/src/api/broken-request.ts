/**
 * Answers to what Node's HTTP parser refuses before there is a request: no router and no hook gets to see
 * it, so the answer is written to the socket by hand. The connection ends with it, because nobody knows
 * where the next request would begin.
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
  // The client went away, or an earlier answer is on its way and must not get this one into its middle.
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

/** `Expect:` with anything but 100-continue, which Node would answer with an empty 417. */
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
