/** What the tests of the API share: a real server on loopback with a database of its own, and ways to talk to it. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { ROLES, type Role } from '@drover/protocol';
import { pino } from 'pino';
import type { ServerConfig } from '../../src/config/server-config.js';
import { createServer, type DroverServer } from '../../src/server.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

export type Answer = { status: number; headers: IncomingHttpHeaders; text: string; body: unknown };

export type RequestOptions = {
  method?: string;
  headers?: Record<string, string>;
  /** Sent as JSON; a text or bytes are sent as they are. */
  body?: unknown;
  token?: string;
};

export type ApiBench = {
  readonly server: DroverServer;
  readonly database: TestDatabase;
  readonly port: number;
  /** For another server of the same database. */
  readonly config: ServerConfig;
  /** Sends a path as it is written: no client tidies it up. */
  call(path: string, options?: RequestOptions): Promise<Answer>;
  /** Sends bytes as they are and gives everything that comes back until the connection ends. */
  sendRaw(bytes: string): Promise<string>;
  close(): Promise<void>;
};

export const TOKENS = ROLES.map((role) => ({
  name: `the-${role}`,
  role,
  token: `${role}-0123456789abcdef`,
}));

export const tokenOf = (role: Role): string => `${role}-0123456789abcdef`;

/** `hearProblem` is called with each line that the server logs as an error. */
export async function createApiBench(
  settings: Partial<ServerConfig> = {},
  hearProblem?: (line: string) => void,
): Promise<ApiBench> {
  const database = await createTestDatabase();
  const config: ServerConfig = {
    port: 0,
    host: '127.0.0.1',
    databaseUrl: database.url,
    tokens: [],
    insecure: true,
    tokenRequests: 0,
    tokenMemoryBytes: 128 * 1024 ** 2,
    auditEnqueues: false,
    auditRetentionMs: 400 * 86_400_000,
    trustedProxies: [],
    wrongTokenLimit: 1_000_000,
    publicUrl: undefined,
    retentionMs: 14 * 86_400_000,
    payloadLimitBytes: 1024 * 1024,
    resultLimitBytes: 1024 * 1024,
    beatMs: 1000,
    leaseMs: 10_000,
    pollMs: 500,
    lateAfterMs: 10_000,
    maxPending: 20_000,
    requestMemoryBytes: 256 * 1024 ** 2,
    poolSize: 4,
    logLevel: 'silent',
    ...settings,
  };
  const logger = hearProblem ? pino({ level: 'error' }, { write: hearProblem }) : pino({ level: 'silent' });
  const server = createServer(config, { logger });
  await server.start();
  const port = Number(new URL(server.address).port);
  return {
    server,
    database,
    port,
    config,
    call: (path, options = {}) => call(port, path, options),
    sendRaw: (bytes) => sendRaw(port, bytes),
    async close() {
      await server.stop();
      await database.drop();
    },
  };
}

function call(
  port: number,
  path: string,
  { method = 'GET', headers = {}, body, token }: RequestOptions,
): Promise<Answer> {
  const isPlain = typeof body === 'string' || Buffer.isBuffer(body) || body === undefined;
  const bytes = isPlain ? body : JSON.stringify(body);
  const allHeaders = {
    ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
    ...(token && { authorization: `Bearer ${token}` }),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port, path, method, headers: allHeaders, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const isJson = response.headers['content-type']?.startsWith('application/json') && text !== '';
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
            body: isJson ? JSON.parse(text) : undefined,
          });
        });
      },
    );
    request.on('error', reject);
    request.end(bytes);
  });
}

function sendRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()));
  });
}

/** The error of an answer, or a failing test if it has none of our form. */
export function errorOf(answer: Answer): { code: string; message: string; details?: unknown } {
  const { error } = (answer.body ?? {}) as { error?: { code: string; message: string; details?: unknown } };
  if (!error || typeof error.code !== 'string' || typeof error.message !== 'string') {
    throw new Error(`expected an error of our form, got ${answer.status} ${answer.text.slice(0, 500)}`);
  }
  return error;
}
