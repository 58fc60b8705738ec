/** Fill and drain: what the workloads d, g, h and history have in common. */
import { monotonicMs } from './clock.mjs';
import { differenceOf } from './cpu.mjs';

const FILL_MAX_MS = 300_000;
const DRAIN_MAX_MS = 90_000;

/** Adds `count` jobs in bulk and lets the store settle. No worker may be running. */
export async function fill(stage, count) {
  const { added } = await stage.producer.call('addBulk', { count, maxMs: FILL_MAX_MS });
  if (added < count) throw new Error(`only ${added} of ${count} jobs were added in ${FILL_MAX_MS / 1000} s`);
  await stage.afterFill();
  await stage.settle();
}

/**
 * Starts the worker and runs all jobs. The clock runs from when the worker is told to start to the
 * moment the store itself has no unfinished job. The store is asked only when all jobs have been started, so that
 * the asking costs the drain nothing.
 */
export async function drain(stage, count) {
  const cpuBefore = stage.cpuSeconds();
  const startedAt = monotonicMs();
  await stage.worker.call('start', {});
  const started = await stage.worker.call('waitFor', { count, maxMs: DRAIN_MAX_MS });
  // A system that is too slow is measured by what it has done when the time is up.
  const emptyAt = started.reached ? await stage.waitUntilEmpty(DRAIN_MAX_MS) : started.at;
  if (emptyAt === undefined) throw new Error(`all ${count} jobs were started, but the store is not empty`);
  const cpu = differenceOf(cpuBefore, stage.cpuSeconds());
  const { handled } = await stage.worker.call('counts');
  await stage.worker.call('stop');
  const done = Math.min(count, handled);
  return {
    rate: (done / (emptyAt - startedAt)) * 1000,
    rateFromFirstStart: (done / (emptyAt - started.firstAt)) * 1000,
    jobs: done,
    complete: started.reached,
    startedTwice: Math.max(0, handled - count),
    cpu,
  };
}

/** Starts the worker and measures from the first job started to the `count`-th; the backlog may be larger. */
export async function drainFirst(stage, count) {
  await stage.worker.call('start', {});
  const { reached, at, firstAt, handled } = await stage.worker.call('waitFor', { count, maxMs: DRAIN_MAX_MS });
  await stage.worker.call('stop');
  return ((reached ? count : handled) / (at - firstAt)) * 1000;
}
