/** BullMQ on Redis. */
import { Queue, Worker } from 'bullmq';
import { makeBullmqAdapter } from './bullmq-classes.mjs';

export const adapter = makeBullmqAdapter({
  Queue,
  Worker,
  // A worker's blocking connection asks for endless retries.
  connect: ({ redisPort }) => ({ host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }),
});
