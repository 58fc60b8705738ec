/** A server that speaks HTTP and the call stream, scripted by a test over real sockets. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type AnswerFrame, answerText, CALLS_PATH, ERA_HEADER, parseCall } from '@drover/protocol';
import { type WebSocket, WebSocketServer } from 'ws';

type Sent = { jobs?: { id: string }[]; id?: string };

export type CallPeer = {
  readonly url: string;
  /** How many jobs came in each way. */
  readonly jobs: { http: number; stream: number };
  /** What came with each call: the era, or none. */
  readonly eras: (number | undefined)[];
  /** Which of the requests over HTTP said that they are repeated. */
  readonly repeated: boolean[];
  /** Over HTTP. */
  refusesBatches: boolean;
  readonly sockets: Set<WebSocket>;
  /** What happens to a call; by default it is accepted. */
  onCall: (socket: WebSocket, accept: (more?: Partial<AnswerFrame>) => void) => void;
  close(): Promise<void>;
};

const REFUSAL = '{"error":{"code":"invalid_request","message":"no"}}';

type PeerOptions = { refusesStreams?: boolean; era?: number | string };

export async function startCallPeer({ refusesStreams = false, era }: PeerOptions = {}): Promise<CallPeer> {
  const streams = new WebSocketServer({ noServer: true });
  if (era !== undefined) streams.on('headers', (headers) => headers.push(`${ERA_HEADER}: ${era}`));
  const http = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => {
      text += part;
    });
    request.on('end', () => {
      peer.repeated.push(request.url?.endsWith('?repeated=true') ?? false);
      const isRefused = peer.refusesBatches && 'jobs' in (JSON.parse(text) as Sent);
      response.writeHead(isRefused ? 400 : 201, { 'content-type': 'application/json' });
      response.end(isRefused ? REFUSAL : accept('http', text));
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
        if (!call) throw new Error(`no call: ${data}`);
        peer.eras.push(call.era);
        peer.onCall(stream, (more) =>
          stream.send(
            answerText({
              ...{ number: call.number, status: 201, retryAfterS: undefined, era: undefined },
              body: accept('stream', call.body),
              ...more,
            }),
          ),
        );
      });
    });
  });

  function accept(way: 'http' | 'stream', text: string): string {
    const { jobs, id } = JSON.parse(text) as Sent;
    peer.jobs[way] += jobs?.length ?? 1;
    return JSON.stringify(jobs ? { items: jobs.map((job) => ({ id: job.id, created: true })) } : { id, created: true });
  }

  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const peer: CallPeer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    jobs: { http: 0, stream: 0 },
    eras: [],
    repeated: [],
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
