/**
 * pg-boss. Large batches, two of them at work, straight on to the next while they come back full, and NOTIFY with
 * the shortest polling it allows behind it. It keeps finished jobs, as Drover does.
 */
import { PgBoss } from 'pg-boss';
import { openSqlStore } from './sql-store.mjs';

const QUEUE = 'noop';
const CONNECTIONS = 16;

const WORK_OPTIONS = {
  batchSize: 2000,
  localConcurrency: 2,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
  notifyPollingIntervalSeconds: 0.5,
};

export const adapter = {
  bulk: { size: 5000, inFlight: 2 },

  async prepare({ databaseUrl }) {
    const boss = await open(databaseUrl, {});
    await boss.createQueue(QUEUE, { notify: true });
    await boss.stop({ graceful: false });
  },

  async openProducer({ databaseUrl }) {
    const boss = await open(databaseUrl, { migrate: false });
    return {
      addOne: (payload) => boss.send(QUEUE, payload),
      addMany: (payloads, dueAt) => {
        const startAfter = dueAt === undefined ? undefined : new Date(dueAt);
        const jobs = payloads.map((data) => (startAfter === undefined ? { data } : { data, startAfter }));
        return boss.insert(QUEUE, jobs);
      },
      close: () => boss.stop({ graceful: false }),
    };
  },

  async openWorker({ databaseUrl }, handle) {
    const boss = await open(databaseUrl, { migrate: false, useListenNotify: true });
    await boss.work(QUEUE, WORK_OPTIONS, async (jobs) => {
      for (const job of jobs) handle(job.data);
    });
    return { stop: () => boss.stop({ timeout: 5000 }) };
  },

  openStore: ({ databaseUrl }) =>
    openSqlStore(databaseUrl, `select count(*) from pgboss.job where name = '${QUEUE}' and state < 'completed'`),
};

/** Without its maintenance and cron loops, which have nothing to do here. */
async function open(databaseUrl, options) {
  const boss = new PgBoss({
    connectionString: databaseUrl,
    max: CONNECTIONS,
    supervise: false,
    schedule: false,
    ...options,
  });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  return boss;
}
