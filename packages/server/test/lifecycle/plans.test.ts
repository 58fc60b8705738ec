/**
 * The statements of the hot path use indexes only, also for a thousand jobs with many queued: one plan that
 * reads the whole table is the end of a queue, and small tests do not notice it.
 */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { claimJobs } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { promoteJobs, untilNextDueMs } from '../../src/lifecycle/promote.js';
import { releaseJobs } from '../../src/lifecycle/release.js';
import { writeUnguarded } from '../support/guard-moves.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

const QUEUED = 200_000;
const BATCH = 1000;
/** The size of the pool under test. */
const CONNECTIONS = 4;

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
  await writeUnguarded(
    bench.pool,
    `insert into drover.job (id, run_at, max_attempts, state, queue, type, payload)
     select drover.new_id(), now(), 10, (case when n % 10 = 0 then 'scheduled' else 'ready' end)::drover.job_state,
       'default', case when n % 2 = 0 then 'work' else 'other' end, '{"n":1}'
     from generate_series(1, ${QUEUED}) n`,
  );
  await bench.pool.query(`insert into drover.lane values ('default', 'work'), ('default', 'other')`);
  await bench.pool.query('vacuum analyze drover.job');
}, 120_000);
afterAll(() => bench.close());

/** How often the job table was read from end to end, as PostgreSQL itself counts. */
async function sequentialScans(): Promise<number> {
  await bench.pool.query('select pg_stat_clear_snapshot()');
  const { rows } = await bench.pool.query(
    `select seq_scan::int as scans from pg_stat_user_tables where relid = 'drover.job'::regclass`,
  );
  return rows[0].scans;
}

test('claim, release, fail, promote and complete of a thousand never read the whole table', async () => {
  const before = await sequentialScans();
  const claim = (count = BATCH) =>
    claimJobs(bench.db.control, [
      { types: ['work', 'other'], queues: null, slots: Array(count).fill(newId()), ignoresPause: false },
    ]);

  const released = await claim();
  expect(released).toHaveLength(BATCH);
  expect(await releaseJobs(bench.db.control, released)).toHaveLength(BATCH);
  const failing = await claim();
  const error = { name: 'Error', message: 'no' };
  await failJobs(
    bench.db.control,
    SERVER_ID,
    failing.map((job) => ({ ...job, runMs: 1, error, retryInMs: 60_000 })),
  );
  expect(await promoteJobs(bench.db.control, BATCH)).toHaveLength(BATCH);
  for (let round = 0; round < 8; round++) {
    const jobs = await claim();
    const completions = jobs.map((job) => ({ ...job, runMs: 1 }));
    expect(await completeJobs(bench.db.control, SERVER_ID, completions)).toHaveLength(BATCH);
  }
  // a connection reports its statistics with the first statement that ends a second after the last report
  await expect
    .poll(
      async () => {
        await Promise.all(Array.from({ length: CONNECTIONS }, () => untilNextDueMs(bench.db.control)));
        const { rows } = await bench.pool.query(
          `select n_tup_del::int as deleted from pg_stat_user_tables where relid = 'drover.job'::regclass`,
        );
        return rows[0].deleted;
      },
      { timeout: 15_000, interval: 200 },
    )
    .toBe(8 * BATCH);
  expect(await sequentialScans()).toBe(before);
});

test('a worker gets a job at once although jobs of a type without a worker fill the queue', async () => {
  await bench.add({ type: 'rare' });
  const began = performance.now();
  const claimed = await bench.claim(100, { types: ['rare'] });
  expect(claimed).toHaveLength(1);
  expect(performance.now() - began).toBeLessThan(200);
});
