/** Adding jobs through a real server to real workers. */
import { newId } from '@drover/protocol';
import { createClient, defineJob, handle } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createServer, type DroverServer } from '../../src/server.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
let server: DroverServer;
beforeAll(async () => {
  database = await createTestDatabase();
  const config = {
    port: 0,
    host: '127.0.0.1',
    databaseUrl: database.url,
    tokens: [],
    tokenRequests: 0,
    tokenMemoryBytes: 128 * 1024 ** 2,
    auditEnqueues: false,
    auditRetentionMs: 400 * 86_400_000,
    trustedProxies: [],
    wrongTokenLimit: 60,
    insecure: true,
    publicUrl: undefined,
    retentionMs: 86_400_000,
    payloadLimitBytes: 1000,
    resultLimitBytes: 1000,
    beatMs: 1000,
    leaseMs: 10_000,
    pollMs: 100,
    lateAfterMs: 10_000,
    maxPending: 1000,
    requestMemoryBytes: 256 * 1024 ** 2,
    poolSize: 4,
    logLevel: 'silent' as const,
  };
  server = createServer(config, { logger: pino({ level: 'silent' }) });
  await server.start();
});
afterAll(async () => {
  await server.stop();
  await database.drop();
});

test('V1 the same id twice in one request is one job that runs once', async () => {
  const twice = defineJob({ type: 'twice' });
  const runs: string[] = [];
  const workers = ['a', 'b'].map((name) =>
    createWorker({ url: server.address, name, jobs: [handle(twice, async ({ id }) => void runs.push(id))] }),
  );
  await Promise.all(workers.map((worker) => worker.start()));
  const client = createClient({ url: server.address });
  const id = newId();
  const job = { job: twice, payload: null, options: { id } };
  const handles = await client.enqueueMany([job, job, { job: twice, payload: null }]);
  expect(handles.map((handle) => handle.created)).toEqual([true, false, true]);
  await Promise.all(handles.map((added) => added.result()));
  expect(runs.filter((run) => run === id)).toHaveLength(1);
  await client.close();
  await Promise.all(workers.map((worker) => worker.stop()));
});

test('jobs added by SQL keep to the payload limit of the server', async () => {
  const add = (length: number) =>
    database.pool.query(`select drover.enqueue('big', to_json(repeat('x', $1)))`, [length]);
  await add(900);
  await expect(add(1100)).rejects.toThrow('payload: expected at most 1000 bytes of JSON, got 1102');
});
