/** a, b, c: adding jobs while no worker runs. A slow system is stopped by the time limit, not by the number. */
const MAX_MS = 10_000;

/** One such workload; the warm-up adds as many jobs. */
function enqueueWorkload(id, method, { jobs: base, ...options }) {
  const add = async (stage) => {
    await stage.settle();
    return stage.producer.call(method, { count: stage.jobs(base), maxMs: MAX_MS, ...options });
  };
  return {
    id,
    warmUp: add,
    async run(stage) {
      const { added, startedAt, finishedAt } = await add(stage);
      return { metrics: { [id]: (added / (finishedAt - startedAt)) * 1000 }, jobs: added };
    },
  };
}

export const enqueueSequential = enqueueWorkload('a', 'addOneByOne', { jobs: 5_000, inFlight: 1 });
export const enqueueInFlight = enqueueWorkload('b', 'addOneByOne', { jobs: 50_000, inFlight: 64 });
export const enqueueBulk = enqueueWorkload('c', 'addBulk', { jobs: 100_000 });
