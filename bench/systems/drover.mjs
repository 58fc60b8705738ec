/**
 * Drover as it is run in production: one server process between PostgreSQL and a worker in a process of its own,
 * all over loopback, history kept. Nothing is tuned for the benchmark but the worker's number of slots; logs are as
 * quiet as the peers'.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createClient, defineJob, handle as withHandler } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { sleep } from '../lib/clock.mjs';
import { freePort } from '../lib/free-port.mjs';
import { ownProcess } from '../lib/owned-processes.mjs';
import { openIdleWorkers } from './drover-idle-workers.mjs';
import { openSqlStore } from './sql-store.mjs';

const SLOTS = 100;
const START_TIMEOUT_MS = 30_000;

/** What lets a server obey `DROVER_TEST_WITHOUT`. */
const TEST_PRELOAD = new URL('../../test/support/test-points/preload.mjs', import.meta.url).href;
/** `drover-unguarded`: the same with fences not compared and no lease renewed while it runs, to see what they cost. */
const UNGUARDED = {
  ...{ NODE_OPTIONS: `--import ${TEST_PRELOAD}`, DROVER_TEST_WITHOUT: 'fencing' },
  ...{ DROVER_BEAT: '1m', DROVER_LEASE: '1h' },
};

const noop = defineJob({ type: 'noop' });

const serverProgram = join(import.meta.dirname, '../../packages/server/dist/cli/main.js');

export const adapter = {
  bulk: { size: 5000, inFlight: 2 },

  async startServer({ system, databaseUrl, directory, log }) {
    const port = await freePort();
    const child = spawn(process.execPath, [serverProgram, 'server', '--insecure', '--port', String(port)], {
      stdio: ['ignore', log, log],
      cwd: directory, // no configuration file here
      env: {
        PATH: process.env.PATH,
        NODE_ENV: 'production',
        DROVER_DATABASE_URL: databaseUrl,
        DROVER_LOG_LEVEL: 'warn',
        ...(system === 'drover-unguarded' ? UNGUARDED : {}),
      },
    });
    const stop = ownProcess(child, 'SIGTERM');
    const droverUrl = `http://127.0.0.1:${port}`;
    try {
      await waitUntilAnswers(`${droverUrl}/api/ping`, child);
    } catch (error) {
      await stop();
      throw error;
    }
    return { pid: child.pid, context: { droverUrl }, stop };
  },

  async openProducer({ droverUrl }) {
    const client = createClient({ url: droverUrl });
    return {
      addOne: (payload) => client.enqueue(noop, payload),
      addMany: (payloads, dueAt) =>
        dueAt === undefined
          ? client.enqueueMany(noop, payloads)
          : client.enqueueMany(
              payloads.map((payload) => ({ job: noop, payload, options: { runAt: new Date(dueAt) } })),
            ),
      close: () => client.close(),
    };
  },

  async openWorker({ droverUrl }, handle) {
    const worker = createWorker({
      url: droverUrl,
      slots: SLOTS,
      jobs: [withHandler(noop, async ({ payload }) => handle(payload))],
    });
    await worker.start();
    return { stop: () => worker.stop() };
  },

  openIdleWorkers: ({ droverUrl }, count) => openIdleWorkers(droverUrl, count),

  // A finished job moves to drover.job_history.
  openStore: ({ databaseUrl }) => openSqlStore(databaseUrl, 'select count(*) from drover.job'),
};

async function waitUntilAnswers(url, child) {
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < giveUpAt) {
    if (child.exitCode !== null) throw new Error(`the drover server ended with ${child.exitCode}; see its log`);
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      // not listening yet
    }
    await sleep(50);
  }
  throw new Error(`the drover server did not answer ${url}`);
}
