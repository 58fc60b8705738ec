/**
 * history: does the past slow the present? The same drain with an empty history and with millions of finished jobs, several
 * times each: one drain differs from the next by more than what is looked for.
 */
import { sleep } from '../lib/clock.mjs';
import { drain, fill } from '../lib/drain.mjs';
import { median } from '../lib/statistics.mjs';
import { fillHistory } from '../systems/drover-history.mjs';

const HISTORY_ROWS = 5_000_000;
const ROUNDS = 3;
/**
 * Five million rows keep the machine writing for a minute, and for some twenty seconds after that everything on it is slower,
 * also processes that have nothing to do with PostgreSQL. Both series begin after this rest.
 */
const REST_MS = 30_000;

async function drainRates(stage, count) {
  await stage.settle();
  await sleep(REST_MS);
  const rates = [];
  for (let round = 0; round < ROUNDS; round++) {
    await fill(stage, count);
    rates.push((await drain(stage, count)).rate);
  }
  return rates;
}

export const history = {
  id: 'history',
  systems: ['drover'],
  async run(stage) {
    const count = stage.jobs(100_000);
    await fill(stage, count);
    await drain(stage, count); // warm-up of worker and server: the drains compared must differ in history only
    const noneRates = await drainRates(stage, count);
    const rows = stage.jobs(HISTORY_ROWS);
    await fillHistory(stage.query, rows);
    const fullRates = await drainRates(stage, count);

    const metrics = { 'history none': median(noneRates), 'history full': median(fullRates) };
    metrics.history = metrics['history full'] / metrics['history none'];
    return { metrics, jobs: count, rows, noneRates, fullRates };
  },
};
