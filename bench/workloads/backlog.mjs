/**
 * g: does the drain slow down when a million jobs wait? The same measurement is taken several times at both backlogs:
 * a worker is started and timed from the first job it starts to the 10,000th. The worker process has run before, so
 * that this is not a measurement of compiling. The rates flatter systems that fetch large batches (the first batch is
 * there when the clock starts); the ratio of the two is what counts.
 */
import { drain, drainFirst, fill } from '../lib/drain.mjs';
import { median } from '../lib/statistics.mjs';

const ROUNDS = 3;
const EMPTY_MAX_MS = 60_000;

export const largeBacklog = {
  id: 'g',
  async run(stage) {
    const small = stage.unscaledJobs(10_000);
    const large = Math.max(stage.jobs(1_000_000), small * (ROUNDS + 1));
    await fill(stage, small);
    await drain(stage, small); // warm-up

    const smallRates = [];
    for (let round = 0; round < ROUNDS; round++) {
      await fill(stage, small);
      smallRates.push(await drainFirst(stage, small));
      if ((await stage.waitUntilEmpty(EMPTY_MAX_MS)) === undefined) throw new Error('the small backlog stays');
    }

    await fill(stage, large);
    const largeRates = [];
    for (let round = 0; round < ROUNDS; round++) largeRates.push(await drainFirst(stage, small));

    const metrics = { 'g small': median(smallRates), 'g large': median(largeRates) };
    metrics.g = metrics['g large'] / metrics['g small'];
    return { metrics, jobs: large, smallRates, largeRates };
  },
};
