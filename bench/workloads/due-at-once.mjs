/** i: how late the last ones are when many jobs are due at one instant. */
import { percentile } from '../lib/statistics.mjs';

/** How long before the instant the adding begins: about twice what the slowest system needs. */
const leadMs = (count) => 2_000 + 0.6 * count;
const MAX_MS = 60_000;

export const dueAtOnce = {
  id: 'i',
  async run(stage) {
    const count = stage.jobs(10_000);
    await stage.worker.call('start', { note: 'startTime' });
    await stage.settle();
    const maxMs = leadMs(count);
    const dueAt = Date.now() + maxMs;
    const { added } = await stage.producer.call('addBulk', { count, maxMs, dueAt });
    if (added < count || Date.now() > dueAt) throw new Error(`only ${added} of ${count} jobs were added in time`);
    const { reached } = await stage.worker.call('waitFor', { count, maxMs: MAX_MS });
    if (!reached) throw new Error('not every job was started');
    const { noted } = await stage.worker.call('counts');
    const lateness = noted.map((startedAt) => startedAt - dueAt);
    return {
      metrics: { 'i p50': percentile(lateness, 50), 'i p99': percentile(lateness, 99) },
      earliest: Math.min(...lateness),
      jobs: count,
    };
  },
};
