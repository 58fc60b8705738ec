/** A scripted HTTP server on a real socket, for what the client must do whatever a server answers. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BULK_MEDIA_TYPE, type JobWithAttempts, newId } from '@drover/protocol';
import { jobsOf, type SentJob } from './bulk-body.js';

const NOW = '2030-01-01T00:00:00.000Z';

export type Asked = {
  method: string;
  path: string;
  /** Of JSON; jobs in the bulk format are in `jobs`. */
  body: unknown;
  jobs: SentJob[];
  bytes: number;
  token: string | undefined;
};
export type Answer = { status: number; body: unknown; headers?: Record<string, string> } | 'hang up';

export type HttpPeer = { url: string; asked: Asked[]; close(): Promise<void> };

export async function startHttpPeer(answer: (asked: Asked) => Answer | Promise<Answer>): Promise<HttpPeer> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const question = await read(request);
    asked.push(question);
    const reply = await answer(question);
    if (reply === 'hang up') {
      request.socket.destroy();
      return;
    }
    response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers });
    response.end(JSON.stringify(reply.body));
  });
  server.on('upgrade', (_request, socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  const text = bytes.toString();
  const isBulk = request.headers['content-type'] === BULK_MEDIA_TYPE;
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    body: text === '' || isBulk ? undefined : (JSON.parse(text) as unknown),
    jobs: isBulk ? jobsOf(text) : [],
    bytes: bytes.length,
    token: request.headers.authorization,
  };
}

/** Answers enqueues as a server does that accepts everything. */
export function acceptJobs(): Answer {
  return { status: 201, body: { existed: [] } };
}

/** A job as a server shows it. */
export function shownJob(changes: Partial<JobWithAttempts>): JobWithAttempts {
  const times = { createdAt: NOW, runAt: NOW, startedAt: null, finishedAt: null, expiresAt: null };
  const options = { priority: 0, maxAttempts: 10, backoff: null, timeout: null, retention: null, tags: [] };
  return {
    ...{ id: newId(), type: 'greet', queue: 'default', state: 'ready', payload: null, result: null, error: null },
    ...{
      attempt: 0,
      attempts: [],
      onLost: 'rerun',
      onFailure: null,
      idempotencyKey: null,
      cancelRequestedAt: null,
      worker: null,
      parentId: null,
    },
    ...{ occurrence: null, run: null, progress: null, ...times, ...options, ...changes },
  };
}
