/** idle: what a system costs when nothing happens: one worker connected, no job. In percent of a core. */
import { sleep } from '../lib/clock.mjs';
import { differenceOf } from '../lib/cpu.mjs';

const SETTLE_MS = 2_000;
const WATCH_MS = 20_000;

export const idle = {
  id: 'idle',
  systems: ['drover'],
  async run(stage) {
    await stage.worker.call('start', {});
    await sleep(SETTLE_MS);
    const before = stage.cpuSeconds();
    await sleep(WATCH_MS);
    const cpu = differenceOf(before, stage.cpuSeconds());
    if (cpu === undefined) throw new Error('needs /proc');
    const percent = (seconds) => (seconds / (WATCH_MS / 1000)) * 100;
    return {
      metrics: {
        'idle server': percent(cpu.server),
        'idle worker': percent(cpu.worker),
        'idle store': percent(cpu.store),
      },
    };
  },
};
