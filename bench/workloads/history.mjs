/**
 * history: does the past slow the present? The same drain with an empty history and with millions of finished jobs.
 */
import { drain, fill } from '../lib/drain.mjs';
import { fillHistory } from '../systems/drover-history.mjs';

const HISTORY_ROWS = 5_000_000;

export const history = {
  id: 'history',
  systems: ['drover'],
  async run(stage) {
    const count = stage.jobs(100_000);
    await fill(stage, count);
    await drain(stage, count); // warm-up of worker and server: the two drains compared must differ in history only
    await fill(stage, count);
    const none = await drain(stage, count);
    const rows = stage.jobs(HISTORY_ROWS);
    await fillHistory(stage.query, rows);
    await fill(stage, count);
    const full = await drain(stage, count);
    return {
      metrics: { 'history none': none.rate, 'history full': full.rate, history: full.rate / none.rate },
      jobs: count,
      rows,
    };
  },
};
