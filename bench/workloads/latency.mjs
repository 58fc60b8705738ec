/** f: from just before the enqueue call to the start of the handler, when there is little to do. */
import { percentile } from '../lib/statistics.mjs';

const WARM_UP_JOBS = 50; // connections, compiled code and prepared statements of a system that has run for a while
const JOBS = 200;
const GAP_MS = { minGapMs: 5, maxGapMs: 25 };
const MAX_MS = 30_000;

export const startLatency = {
  id: 'f',
  aim: 'latency',
  async run(stage) {
    await stage.worker.call('start', { note: 'latency' });
    await stage.settle();
    const count = WARM_UP_JOBS + JOBS;
    await stage.producer.call('addPaced', { count, ...GAP_MS });
    const { reached } = await stage.worker.call('waitFor', { count, maxMs: MAX_MS });
    if (!reached) throw new Error('not every job was started');
    const { noted } = await stage.worker.call('counts');
    const measured = noted.slice(WARM_UP_JOBS);
    const metrics = Object.fromEntries([50, 95, 99].map((p) => [`f p${p}`, percentile(measured, p)]));
    return { metrics, jobs: JOBS };
  },
};
