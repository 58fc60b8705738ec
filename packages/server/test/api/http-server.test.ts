import { Agent, request as httpRequest } from 'node:http';
import { DroverError, ERRORS, type ErrorCode, newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createTokens } from '../../src/access/tokens.js';
import { createAuthenticator } from '../../src/api/auth.js';
import { createHandlers } from '../../src/api/handlers.js';
import { createHttpServer, type HttpServer } from '../../src/api/http-server.js';
import { createMemoryBudget } from '../../src/base/memory-budget.js';
import type { Database, Runner, TransactionRunner } from '../../src/db/database.js';
import { DatabaseError } from '../../src/db/database-error.js';
import type { Engine } from '../../src/engine/engine.js';
import { createScheduleEngine } from '../../src/engine/schedules.js';
import { createWorkflowEngine } from '../../src/engine/workflows.js';

/** An engine and a database that do what a test says: the faults of real ones cannot be had at will. */
let enqueue: Engine['enqueue'];
let run: Runner['run'];
let logged: { level: number; err?: { message: string } }[];
let http: HttpServer;
let address: string;

beforeEach(async () => {
  enqueue = async () => new Set();
  run = async () => [];
  logged = [];
  const runner: TransactionRunner = {
    run: (statement, values) => run(statement, values),
    runTexts: async () => [],
    copyIn: async () => {},
    transaction: (work) => work(runner),
  };
  const db: Database = { control: runner, bulk: runner, reads: runner, url: () => '', close: async () => {} };
  const engine: Engine = {
    enqueue: (request, by) => enqueue(request, by),
    types: async () => new Map(),
    forgetType: async () => 'unknown',
    cancel: async () => 'not_found',
    retry: async () => 'not_found',
    fail: async () => 'not_found',
    pauses: async () => [],
    pause: async (scope, name, by) => ({ scope, name, note: null, pausedBy: by.principal.name, pausedAt: '' }),
    resume: async () => false,
    pauseWorker: async () => undefined,
    resumeWorker: async () => false,
    waitForFinish: async () => {},
    health: () => [{ check: 'dispatcher', status: 'error', message: 'it sleeps' }],
    metrics: async () => '',
  };
  const config = { host: '127.0.0.1', port: 0, tokens: [], insecure: true, payloadLimitBytes: 1000, beatMs: 1000 };
  const logger = pino({ level: 'warn' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  const schedules = createScheduleEngine({ db, report() {}, onChange() {}, types: async () => new Map() });
  const tokens = createTokens({ db: runner, configured: [], onChange() {} });
  const workflows = createWorkflowEngine({ db, serverId: newId(), publish() {}, limits: config });
  const handlers = createHandlers({ engine, schedules, workflows, tokens, db, config });
  const authenticator = createAuthenticator({
    ...{ config, known: { find: () => undefined }, addressOf: () => '127.0.0.1' },
    wrong: { check() {}, note() {} },
  });
  http = createHttpServer({
    handlers,
    authenticator,
    denials: { note() {} },
    checkRate() {},
    config,
    logger,
    serverId: newId(),
    memory: createMemoryBudget(10_000),
  });
  address = (await http.listen()).address;
});
afterEach(() => http.close());

const add = () =>
  fetch(`${address}/api/v1/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"type":"hello"}',
  });

describe('whatever goes wrong inside is an error of the table', () => {
  const secret = 'password=hunter2 at db.internal';
  const faults: [string, Error, ErrorCode][] = [
    ['a bug', new TypeError(secret), 'internal'],
    ['something that is no error', 'oops' as unknown as Error, 'internal'],
    ['a statement that the database refuses', new DatabaseError('refused', secret, '42P01'), 'internal'],
    ['a deadlock', new DatabaseError('refused', secret, '40P01'), 'database_unavailable'],
    ['a statement that takes too long', new DatabaseError('refused', secret, '57014'), 'database_unavailable'],
    ['no connection', new DatabaseError('unavailable', secret), 'database_unavailable'],
    ['no answer', new DatabaseError('unknown', secret), 'database_unavailable'],
    ['an overload', new DroverError('overloaded', 'too many'), 'overloaded'],
    ['a stop', new DroverError('shutting_down', 'bye'), 'shutting_down'],
  ];
  test.each(faults)('%s', async (_what, fault, code) => {
    enqueue = () => Promise.reject(fault);
    run = () => Promise.reject(fault);
    for (const answer of [await add(), await fetch(`${address}/api/v1/jobs`)]) {
      expect(answer.status).toBe(ERRORS[code].status);
      const text = await answer.text();
      expect(JSON.parse(text)).toMatchObject({ error: { code } });
      expect(text).not.toContain('hunter2');
      const retryAfter = answer.headers.get('retry-after');
      if ([429, 503].includes(answer.status)) expect(Number(retryAfter)).toBeOneOf([1, 2, 3, 4, 5]);
      else expect(retryAfter).toBeNull();
    }
  });

  test('a fault of ours is logged with its cause', async () => {
    enqueue = () => Promise.reject(new TypeError('x is not a function'));
    await add();
    expect(logged).toMatchObject([{ level: 50, err: { message: 'x is not a function' } }]);
  });
});

test('a deep ping is a partial success when the database works and a part of the server does not', async () => {
  run = async () => [{ read_only: false }] as never;
  const answer = await fetch(`${address}/api/deep_ping`);
  expect([answer.status, await answer.json()]).toMatchObject([
    200,
    { status: 'partial_success', checks: { database: { status: 'okay' }, dispatcher: { message: 'it sleeps' } } },
  ]);
});

test('a database that takes no changes is an error', async () => {
  run = async () => [{ read_only: true }] as never;
  const answer = await fetch(`${address}/api/deep_ping`);
  expect([answer.status, await answer.json()]).toMatchObject([503, { status: 'error' }]);
});

test('who is slow to ask cannot hold a connection', () => {
  const { headersTimeout, requestTimeout, keepAliveTimeout, timeout } = http.server;
  expect(headersTimeout).toBeGreaterThan(0);
  expect(headersTimeout).toBeLessThanOrEqual(30_000);
  expect(requestTimeout).toBeGreaterThan(0);
  expect(requestTimeout).toBeLessThanOrEqual(120_000);
  expect(keepAliveTimeout).toBeGreaterThan(65_000);
  expect(timeout).toBeGreaterThan(120_000);
});

test('a stop lets a request end, tells the client to leave, and refuses the next one', async () => {
  let go: () => void = () => {};
  const started = new Promise<void>((resolve) => {
    enqueue = () => {
      resolve();
      return new Promise((done) => {
        go = () => done(new Set());
      });
    };
  });
  const agent = new Agent({ keepAlive: true });
  const answer = new Promise<{ status: number | undefined; connection: string | undefined }>((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const request = httpRequest(`${address}/api/v1/jobs`, { method: 'POST', agent, headers }, (response) => {
      response.resume();
      resolve({ status: response.statusCode, connection: response.headers.connection });
    });
    request.on('error', reject);
    request.end('{"type":"hello"}');
  });
  await started;
  const stopped = http.close();
  go();
  expect(await answer).toEqual({ status: 201, connection: 'close' });
  await stopped;
  await expect(add()).rejects.toThrow();
  agent.destroy();
});
