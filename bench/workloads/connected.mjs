/** workers: what a server pays for a thousand workers that are connected and have nothing to do. */
import { sleep } from '../lib/clock.mjs';
import { differenceOf } from '../lib/cpu.mjs';

const WORKERS = 1000;
const SETTLE_MS = 10_000;
const WATCH_MS = 30_000;

export const connectedWorkers = {
  id: 'workers',
  systems: ['drover'],
  async run(stage) {
    await stage.worker.call('startIdle', { count: WORKERS });
    await sleep(SETTLE_MS);
    const before = stage.cpuSeconds();
    await sleep(WATCH_MS);
    const cpu = differenceOf(before, stage.cpuSeconds());
    if (cpu === undefined) throw new Error('needs /proc');
    const { connected } = await stage.worker.call('countIdle');
    if (connected < WORKERS) throw new Error(`only ${connected} of ${WORKERS} workers are still connected`);
    return {
      metrics: {
        'workers server': (cpu.server / (WATCH_MS / 1000)) * 100,
        'workers store': (cpu.store / (WATCH_MS / 1000)) * 100,
        'workers memory': stage.residentMegabytes().server,
      },
    };
  },
};
