/**
 * Graphile Worker. The local queue (many jobs fetched at once) and batched completion are its documented way to
 * throughput. The local queue adds a refetch delay, so it is off where latency is asked for.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { openSqlStore } from './sql-store.mjs';

const TASK = 'noop';
const PRODUCER_CONNECTIONS = 16;
const CONCURRENCY = 24;
const POLL_MS = 500; // delayed jobs are found by polling only

const silent = new Logger(() => () => {});

const PRESETS = {
  throughput: {
    worker: {
      localQueue: { size: 2000, refetchDelay: { durationMs: 10 } },
      completeJobBatchDelay: 0,
    },
  },
  latency: { worker: {} },
};

export const adapter = {
  bulk: { size: 5000, inFlight: 2 },

  async prepare({ databaseUrl }) {
    const utils = await makeWorkerUtils({ connectionString: databaseUrl, logger: silent });
    await utils.migrate();
    await utils.release();
  },

  async openProducer({ databaseUrl }) {
    const pgPool = new pg.Pool({ connectionString: databaseUrl, max: PRODUCER_CONNECTIONS });
    const utils = await makeWorkerUtils({ pgPool, logger: silent });
    return {
      addOne: (payload) => utils.addJob(TASK, payload),
      addMany: (payloads, dueAt) => {
        const runAt = dueAt === undefined ? undefined : new Date(dueAt);
        return utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload, runAt })));
      },
      close: async () => {
        await utils.release();
        await pgPool.end();
      },
    };
  },

  async openWorker({ databaseUrl, aim }, handle) {
    const runner = await run({
      connectionString: databaseUrl,
      concurrency: CONCURRENCY,
      maxPoolSize: CONCURRENCY + 1,
      pollInterval: POLL_MS,
      noHandleSignals: true,
      logger: silent,
      taskList: { [TASK]: async (payload) => handle(payload) },
      preset: PRESETS[aim],
    });
    return { stop: () => runner.stop() };
  },

  // A finished job is deleted.
  openStore: ({ databaseUrl }) => openSqlStore(databaseUrl, 'select count(*) from graphile_worker._private_jobs'),
};
