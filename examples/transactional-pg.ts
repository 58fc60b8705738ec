/** With `pg`: an order and its job are committed together, or neither exists. */
import { createClient, defineJob } from '@drover/sdk';
import { enqueueWith } from '@drover/sdk/postgres';
import { createWorker } from '@drover/sdk/worker';
import pg from 'pg';

const confirm = defineJob<{ order: string }, string>({
  type: 'transactional-pg.confirm',
  run: async ({ payload }) => `confirmed ${payload.order}`,
});

const pool = new pg.Pool({ connectionString: process.env.DROVER_DATABASE_URL });
await pool.query('create table if not exists example_pg_orders (id text primary key)');

async function placeOrder(order: string, outcome: 'commit' | 'rollback'): Promise<string> {
  const connection = await pool.connect();
  try {
    await connection.query('begin');
    await connection.query('insert into example_pg_orders values ($1) on conflict do nothing', [order]);
    const job = await enqueueWith((sql, params) => connection.query(sql, params), confirm, { order });
    await connection.query(outcome);
    return job.id;
  } finally {
    connection.release();
  }
}

const drover = createClient();
const worker = createWorker({ jobs: [confirm] });
await worker.start();

const kept = await placeOrder('order-1', 'commit');
console.log(await drover.job(confirm, kept).result({ timeout: '30s' }));

const undone = await placeOrder('order-2', 'rollback');
const reason = await drover
  .job(undone)
  .get()
  .catch((error: { code: string }) => error.code);
console.log(`rolled back: ${reason}`);

await drover.close();
await worker.stop();
await pool.query('drop table example_pg_orders');
await pool.end();
