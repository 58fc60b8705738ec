/** e, s: a producer and a worker at work at the same time, from the first add to an empty store. */
const PRODUCE_MAX_MS = 15_000;
const DRAIN_MAX_MS = 90_000;

async function produceAndDrain(stage, method, options) {
  await stage.worker.call('start', {});
  await stage.settle();
  const { added, startedAt, finishedAt } = await stage.producer.call(method, { ...options, maxMs: PRODUCE_MAX_MS });
  const { reached, at } = await stage.worker.call('waitFor', { count: added, maxMs: DRAIN_MAX_MS });
  const emptyAt = reached ? await stage.waitUntilEmpty(DRAIN_MAX_MS) : at;
  if (emptyAt === undefined) throw new Error(`all ${added} jobs were started, but the store is not empty`);
  const { handled } = await stage.worker.call('counts');
  return {
    rate: (Math.min(added, handled) / (emptyAt - startedAt)) * 1000,
    jobs: added,
    complete: reached,
    startedTwice: Math.max(0, handled - added),
    produceMs: finishedAt - startedAt,
  };
}

/** One such workload; the warm-up is the same, and the worker stops after it. */
function endToEndWorkload(id, method, { jobs: base, ...options }) {
  const work = (stage) => produceAndDrain(stage, method, { count: stage.jobs(base), ...options });
  return {
    id,
    async warmUp(stage) {
      const { complete } = await work(stage);
      if (!complete) throw new Error('the warm-up did not end in time');
      await stage.worker.call('stop');
    },
    async run(stage) {
      const { rate, ...rest } = await work(stage);
      return { metrics: { [id]: rate }, ...rest };
    },
  };
}

export const bulkProducer = endToEndWorkload('e', 'addBulk', { jobs: 50_000 });
export const singleProducer = endToEndWorkload('s', 'addOneByOne', { jobs: 30_000, inFlight: 64 });
