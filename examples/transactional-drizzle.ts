/** With `drizzle-orm` over `pg`: an order and its job are committed together, or neither exists. */
import { createClient, defineJob } from '@drover/sdk';
import { enqueueWith, type Query } from '@drover/sdk/postgres';
import { createWorker } from '@drover/sdk/worker';
import { type SQL, sql, TransactionRollbackError } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';
import pg from 'pg';

const confirm = defineJob<{ order: string }, string>({
  type: 'transactional-drizzle.confirm',
  run: async ({ payload }) => `confirmed ${payload.order}`,
});

const orders = pgTable('example_drizzle_orders', { id: text().primaryKey() });
const pool = new pg.Pool({ connectionString: process.env.DROVER_DATABASE_URL });
const db = drizzle({ client: pool });
await db.execute(sql`create table if not exists ${orders} (id text primary key)`);

/** Runs a statement with `$1`-style parameters on a transaction of drizzle. */
function queryOn(tx: { execute(statement: SQL): Promise<unknown> }): Query {
  return (statement, params) => {
    const parts = statement.split(/\$\d+/).map((part) => sql.raw(part));
    return tx.execute(sql.join(parts.flatMap((part, n) => (n < params.length ? [part, sql`${params[n]}`] : [part]))));
  };
}

async function placeOrder(order: string, outcome: 'commit' | 'rollback'): Promise<string> {
  let id = '';
  try {
    await db.transaction(async (tx) => {
      await tx.insert(orders).values({ id: order }).onConflictDoNothing();
      ({ id } = await enqueueWith(queryOn(tx), confirm, { order }));
      if (outcome === 'rollback') tx.rollback();
    });
  } catch (error) {
    if (!(error instanceof TransactionRollbackError)) throw error;
  }
  return id;
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
await db.execute(sql`drop table ${orders}`);
await pool.end();
