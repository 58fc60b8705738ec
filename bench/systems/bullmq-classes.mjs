/** What BullMQ does alike on Redis and on PostgreSQL: only the classes and the connection differ. */
const QUEUE = 'noop';
const CONCURRENCY = 100;
const JOB_OPTIONS = { removeOnComplete: true };

export function makeBullmqAdapter({ Queue, Worker, connect, prepare }) {
  const openQueue = async (context) => {
    const queue = new Queue(QUEUE, { connection: connect(context) });
    // A failed call throws by itself; what comes here is the end of idle connections when the store is closed.
    queue.on('error', () => {});
    await queue.waitUntilReady();
    return queue;
  };
  return {
    bulk: { size: 1000, inFlight: 2 },
    prepare,

    async openProducer(context) {
      const queue = await openQueue(context);
      return {
        addOne: (payload) => queue.add(QUEUE, payload, JOB_OPTIONS),
        addMany: (payloads, dueAt) => {
          const opts = dueAt === undefined ? JOB_OPTIONS : { ...JOB_OPTIONS, delay: Math.max(0, dueAt - Date.now()) };
          return queue.addBulk(payloads.map((data) => ({ name: QUEUE, data, opts })));
        },
        close: () => queue.close(),
      };
    },

    async openWorker(context, handle) {
      const worker = new Worker(QUEUE, async (job) => handle(job.data), {
        connection: connect(context),
        concurrency: CONCURRENCY,
      });
      worker.on('error', (error) => console.error(error));
      await worker.waitUntilReady();
      return { stop: () => worker.close() };
    },

    // A finished job is deleted.
    async openStore(context) {
      const queue = await openQueue(context);
      return {
        unfinished: () => queue.getJobCountByTypes('waiting', 'active', 'delayed', 'prioritized'),
        close: () => queue.close(),
      };
    },
  };
}
