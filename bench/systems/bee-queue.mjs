/** bee-queue with everything off that a no-op does not need: events, stored job objects, finished jobs. */
import BeeQueue from 'bee-queue';

const QUEUE = 'noop';
const CONCURRENCY = 200;
const STOP_TIMEOUT_MS = 5000;

function open({ redisPort }, settings) {
  const queue = new BeeQueue(QUEUE, {
    redis: { host: '127.0.0.1', port: redisPort },
    isWorker: false,
    getEvents: false,
    sendEvents: false,
    storeJobs: false,
    removeOnSuccess: true,
    ...settings,
  });
  queue.on('error', (error) => console.error(error));
  return queue.ready();
}

export const adapter = {
  bulk: { size: 1000, inFlight: 2 },

  async openProducer(context) {
    const queue = await open(context);
    return {
      addOne: (payload) => queue.createJob(payload).save(),
      addMany: async (payloads, dueAt) => {
        const jobs = payloads.map((payload) => {
          const job = queue.createJob(payload);
          return dueAt === undefined ? job : job.delayUntil(dueAt);
        });
        const errors = await queue.saveAll(jobs);
        if (errors.size > 0) throw [...errors.values()][0];
      },
      close: () => queue.close(STOP_TIMEOUT_MS),
    };
  },

  async openWorker(context, handle) {
    // The debounce is how often it looks for delayed jobs that are close together: a second unless told.
    const queue = await open(context, { isWorker: true, activateDelayedJobs: true, delayedDebounce: 10 });
    queue.process(CONCURRENCY, async (job) => handle(job.data));
    return { stop: () => queue.close(STOP_TIMEOUT_MS) };
  },

  async openStore(context) {
    const queue = await open(context);
    return {
      unfinished: async () => {
        const { waiting, active, delayed } = await queue.checkHealth();
        return waiting + active + delayed;
      },
      close: () => queue.close(STOP_TIMEOUT_MS),
    };
  },
};
