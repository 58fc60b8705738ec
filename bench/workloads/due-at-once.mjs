/** i: how late the last ones are when many jobs are due at one instant. */
import { percentile } from '../lib/statistics.mjs';

/** How long before the instant the adding begins: about twice what the slowest system needs. */
const leadMs = (count) => 2_000 + 0.6 * count;
const MAX_MS = 60_000;
const JOBS = 10_000;

/** How late each job started, in milliseconds. */
async function startAll(stage, count) {
  await stage.worker.call('start', { note: 'startTime' });
  await stage.settle();
  const maxMs = leadMs(count);
  const dueAt = Date.now() + maxMs;
  const { added } = await stage.producer.call('addBulk', { count, maxMs, dueAt });
  if (added < count || Date.now() > dueAt) throw new Error(`only ${added} of ${count} jobs were added in time`);
  const { reached } = await stage.worker.call('waitFor', { count, maxMs: MAX_MS });
  if (!reached) throw new Error('not every job was started');
  const { noted } = await stage.worker.call('counts');
  return noted.map((startedAt) => startedAt - dueAt);
}

export const dueAtOnce = {
  id: 'i',
  async warmUp(stage) {
    await startAll(stage, stage.jobs(JOBS));
    await stage.worker.call('stop');
  },
  async run(stage) {
    const count = stage.jobs(JOBS);
    const lateness = await startAll(stage, count);
    return {
      metrics: { 'i p50': percentile(lateness, 50), 'i p99': percentile(lateness, 99) },
      earliest: Math.min(...lateness),
      jobs: count,
    };
  },
};
