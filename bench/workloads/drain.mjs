/** d: working off a backlog of no-ops; h: the CPU that it took, over all processes. */
import { drain, fill } from '../lib/drain.mjs';

const JOBS = 100_000;

export const drainBacklog = {
  id: 'd',
  async warmUp(stage) {
    await fill(stage, stage.jobs(JOBS));
    const { complete } = await drain(stage, stage.jobs(JOBS));
    if (!complete) throw new Error('the warm-up did not end in time');
  },
  async run(stage) {
    const count = stage.jobs(JOBS);
    await fill(stage, count);
    const { rate, cpu, ...rest } = await drain(stage, count);
    if (cpu === undefined) return { metrics: { d: rate }, ...rest };
    const perTenThousand = (seconds) => (seconds / rest.jobs) * 10_000;
    return {
      metrics: {
        d: rate,
        h: perTenThousand(cpu.store + cpu.server + cpu.worker),
        'h store': perTenThousand(cpu.store),
        'h server': perTenThousand(cpu.server),
        'h worker': perTenThousand(cpu.worker),
      },
      ...rest,
    };
  },
};
