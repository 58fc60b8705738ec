/** f: from just before the enqueue call to the start of the handler, when there is little to do. */
import { percentile } from '../lib/statistics.mjs';

const WARM_UP = { inFlight: 1, maxMs: 10_000 };
/** After the start of the worker, for its connections and prepared statements. */
const FIRST_JOBS = 50;
const JOBS = 600;
const GAP_MS = { minGapMs: 5, maxGapMs: 25 };
const MAX_MS = 30_000;

export const startLatency = {
  id: 'f',
  aim: 'latency',
  async warmUp(stage) {
    await stage.worker.call('start', {});
    const { added } = await stage.producer.call('addOneByOne', { count: stage.jobs(5_000), ...WARM_UP });
    const { reached } = await stage.worker.call('waitFor', { count: added, maxMs: MAX_MS });
    if (!reached) throw new Error('the warm-up did not end in time');
    await stage.worker.call('stop');
  },
  async run(stage) {
    await stage.worker.call('start', { note: 'latency' });
    await stage.settle();
    const count = FIRST_JOBS + JOBS;
    await stage.producer.call('addPaced', { count, ...GAP_MS });
    const { reached } = await stage.worker.call('waitFor', { count, maxMs: MAX_MS });
    if (!reached) throw new Error('not every job was started');
    const { noted } = await stage.worker.call('counts');
    const measured = noted.slice(FIRST_JOBS);
    const metrics = Object.fromEntries([50, 95, 99].map((p) => [`f p${p}`, percentile(measured, p)]));
    return { metrics, jobs: JOBS };
  },
};
