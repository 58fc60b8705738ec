/** BullMQ on its PostgreSQL backend. */
import { createPostgresBackend, withBackend } from 'bullmq';
import { makeBullmqAdapter } from './bullmq-classes.mjs';

const CONNECTIONS = 16;

const { Queue, Worker } = withBackend(createPostgresBackend);

export const adapter = makeBullmqAdapter({
  Queue,
  Worker,
  connect: ({ databaseUrl }) => ({ connectionString: databaseUrl, max: CONNECTIONS }),
  prepare: async ({ databaseUrl }) => {
    const queue = new Queue('noop', { connection: { connectionString: databaseUrl, max: 2, migrate: true } });
    await queue.waitUntilReady();
    await queue.close();
  },
});
