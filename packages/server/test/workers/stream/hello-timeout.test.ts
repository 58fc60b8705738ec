/** How long a worker may take to say hello, and that it is not blamed for a database that takes long to answer it. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { newId, STREAM_PATH, STREAM_VERSION } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { UNLIMITED } from '../../../src/access/principal.js';
import { connectDatabase, type Database } from '../../../src/db/database.js';
import { createOutcomes } from '../../../src/sessions/outcomes.js';
import { createProgressWriter } from '../../../src/sessions/progress.js';
import { createRegistry } from '../../../src/sessions/registry.js';
import { createWorkerSessions } from '../../../src/sessions/worker-sessions.js';
import { routeUpgrades } from '../../../src/sockets/upgrades.js';
import { createWorkerStream, type WorkerStream } from '../../../src/workers/stream/stream.js';
import { type AnswerHolder, startAnswerHolder } from '../../support/answer-holder.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { connect, helloOf, type RawWorker } from '../../support/raw-worker.js';

const HELLO_MS = 300;
const CALLER_LIMIT = 5;

let database: TestDatabase;
let holder: AnswerHolder;
let db: Database;
let http: Server;
let stream: WorkerStream;
let port: number;
beforeAll(async () => {
  database = await createTestDatabase();
  holder = await startAnswerHolder(database.url);
  db = connectDatabase({ url: holder.url, poolSize: 2 });
  const logger = pino({ level: 'silent' });
  const common = { db: db.control, logger, serverId: newId(), publish() {} };
  const sessions = createWorkerSessions({
    ...{ ...common, registry: createRegistry(logger), progress: createProgressWriter(db.control) },
    outcomes: createOutcomes({ ...common, signal: new AbortController().signal }),
    ...{ beatMs: 1000, leaseMs: 10_000, limits: { payloadLimitBytes: 1000, resultLimitBytes: 1000 } },
    ...{
      types: { async register() {}, present: () => new Map() },
      clusterId: async () => 'here',
      servers: () => [],
      onRegistered() {},
      onOffer() {},
    },
  });
  const principal = { name: 'one', role: 'worker', kind: 'configured', ...UNLIMITED } as const;
  const open = { authorize: async () => ({ principal }), watch: () => () => {} };
  stream = createWorkerStream({ sessions, logger, ...open, helloTimeoutMs: HELLO_MS, streamsPerCaller: CALLER_LIMIT });
  http = createServer();
  routeUpgrades(http, { [STREAM_PATH]: stream }, { requireKnown: async () => {}, opened() {}, headersOf: () => ({}) });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  port = (http.address() as AddressInfo).port;
});
afterAll(async () => {
  await stream.stop(0);
  await new Promise((resolve) => http.close(resolve));
  await db.close();
  await holder.close();
  await database.drop();
});

test('a connection that says nothing is refused', async () => {
  const worker = await connect({ port });
  expect(await worker.next('refused')).toMatchObject({
    code: 'invalid_request',
    message: 'no hello within 0.3 seconds',
  });
});

test('one that has said hello is not, however long the database takes', async () => {
  const worker = await connect({ port });
  const pass = holder.holdAnswersTo('session_open');
  worker.send(helloOf());
  // Its own time is over before that of a later connection.
  const silent = await connect({ port });
  await silent.next('refused');
  expect(worker.waiting('refused')).toEqual([]);
  pass();
  expect(await worker.next('welcome')).toMatchObject({ version: STREAM_VERSION });
});

test('one caller has a limited number of workers on a server, and a place is free when one has left', async () => {
  const workers: RawWorker[] = [];
  let refused: unknown;
  for (let count = 0; count <= CALLER_LIMIT && refused === undefined; count++) {
    await connect({ port }).then(
      (worker) => workers.push(worker),
      (error: unknown) => {
        refused = error;
      },
    );
  }
  const message = `"one" has ${CALLER_LIMIT} workers on this server already, which is the limit`;
  expect(refused).toMatchObject({ status: 429, body: { error: { code: 'overloaded', message } } });
  for (const worker of workers) worker.terminate();
  const isFree = () =>
    connect({ port }).then(
      () => true,
      () => false,
    );
  await expect.poll(isFree).toBe(true);
});
