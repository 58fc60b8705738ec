/** a, b, c: adding jobs while no worker runs. A slow system is stopped by the time limit, not by the number. */
const MAX_MS = 10_000;

async function enqueueRate(stage, method, options) {
  await stage.settle();
  const { added, startedAt, finishedAt } = await stage.producer.call(method, { ...options, maxMs: MAX_MS });
  return { rate: (added / (finishedAt - startedAt)) * 1000, jobs: added };
}

export const enqueueSequential = {
  id: 'a',
  async run(stage) {
    const { rate, jobs } = await enqueueRate(stage, 'addOneByOne', { count: stage.jobs(5_000), inFlight: 1 });
    return { metrics: { a: rate }, jobs };
  },
};

export const enqueueInFlight = {
  id: 'b',
  async run(stage) {
    const { rate, jobs } = await enqueueRate(stage, 'addOneByOne', { count: stage.jobs(50_000), inFlight: 64 });
    return { metrics: { b: rate }, jobs };
  },
};

export const enqueueBulk = {
  id: 'c',
  async run(stage) {
    const { rate, jobs } = await enqueueRate(stage, 'addBulk', { count: stage.jobs(100_000) });
    return { metrics: { c: rate }, jobs };
  },
};
