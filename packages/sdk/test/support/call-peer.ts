/** A server that speaks HTTP and the call stream, scripted by a test over real sockets. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type AnswerFrame, answerText, CALLS_PATH, parseCall } from '@drover/protocol';
import { type WebSocket, WebSocketServer } from 'ws';
import { jobsOf } from './bulk-body.js';

export type CallPeer = {
  readonly url: string;
  /** How many jobs came in each way. */
  readonly jobs: { http: number; stream: number };
  /** The ids of the jobs of each request or call, in the order in which they came. */
  readonly asked: string[][];
  /** Over HTTP. */
  refusesBatches: boolean;
  readonly sockets: Set<WebSocket>;
  /** What happens to a call; by default it is accepted. */
  onCall: (socket: WebSocket, accept: (more?: Partial<AnswerFrame>) => void) => void;
  close(): Promise<void>;
};

export const REFUSAL = '{"error":{"code":"invalid_request","message":"no"}}';
const ACCEPTED = '{"existed":[]}';

export async function startCallPeer({ refusesStreams = false } = {}): Promise<CallPeer> {
  const streams = new WebSocketServer({ noServer: true });
  const http = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => {
      text += part;
    });
    request.on('end', () => {
      const count = note(text);
      const isRefused = peer.refusesBatches && count > 1;
      if (!isRefused) peer.jobs.http += count;
      response.writeHead(isRefused ? 400 : 201, { 'content-type': 'application/json' });
      response.end(isRefused ? REFUSAL : ACCEPTED);
    });
  });
  http.on('upgrade', (request, socket, head) => {
    if (refusesStreams || request.url !== CALLS_PATH) {
      socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
      return;
    }
    streams.handleUpgrade(request, socket, head, (stream) => {
      peer.sockets.add(stream);
      stream.on('message', (data) => {
        const call = parseCall(String(data));
        if (!call) throw new Error(`not a call: ${data}`);
        const count = note(call.body);
        peer.onCall(stream, (more) => {
          const frame = { number: call.number, status: 201, retryAfterS: undefined, body: ACCEPTED, ...more };
          if (frame.status === 201) peer.jobs.stream += count;
          stream.send(answerText(frame));
        });
      });
    });
  });

  function note(body: string): number {
    const ids = jobsOf(body).map(({ id }) => id);
    peer.asked.push(ids);
    return ids.length;
  }

  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const peer: CallPeer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    jobs: { http: 0, stream: 0 },
    asked: [],
    refusesBatches: false,
    sockets: new Set(),
    onCall: (_socket, accepted) => accepted(),
    close() {
      for (const socket of peer.sockets) socket.terminate();
      return new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      });
    },
  };
  return peer;
}
