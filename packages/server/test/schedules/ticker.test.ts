/** The loop that fires schedules on a server. */
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { createTicker } from '../../src/schedules/ticker.js';
import { createScheduleBench } from './support/schedule-bench.js';

const bench = createScheduleBench();

it('what cannot be cleared up for one schedule does not keep others from firing', async () => {
  await bench.put('stuck', { overlap: 'cancel-previous', catchUp: 'last' });
  for (let round = 0; round < 2; round++) {
    await bench.age('stuck', 1);
    await bench.fire();
    await bench.shiftLedger();
  }
  await bench.put('other', { catchUp: 'last' });
  let refusals = 0;
  const ticker = createTicker({
    ...{ db: bench.db.bulk, logger: pino({ level: 'silent' }), share: () => ({ index: 0, of: 1 }) },
    report() {},
    onFired() {},
    cancel() {
      refusals += 1;
      return Promise.reject(new Error('the job cannot be cancelled'));
    },
  });
  ticker.start();
  try {
    await expect.poll(() => refusals).toBeGreaterThan(0);
    for (let fired = 1; fired <= 2; fired++) {
      await bench.shiftLedger();
      await bench.age('other', 1);
      ticker.wake();
      await expect.poll(async () => (await bench.ledger('other')).length, { timeout: 10_000 }).toBe(fired);
    }
  } finally {
    await ticker.stop();
  }
});
