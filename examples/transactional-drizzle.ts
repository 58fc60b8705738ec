/** With `drizzle-orm` over `pg`: an order and its job are committed together, or neither exists. */
import { createClient, defineJob } from '@drover/sdk';
import { enqueueWith, type Query } from '@drover/sdk/postgres';
import { createWorker, handle } from '@drover/sdk/worker';
import { type SQL, sql, TransactionRollbackError } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';
import pg from 'pg';

const confirm = defineJob<{ order: string }, string>({ type: 'transactional-drizzle.confirm' });

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

const worker = createWorker({
  selfDestruct: true,
  handlers: [handle(confirm, async ({ payload }) => `confirmed ${payload.order}`)],
});
await worker.start();
const client = createClient();

const kept = await placeOrder('order-1', 'commit');
console.log(await client.result(kept, { timeout: '30s' }));

const undone = await placeOrder('order-2', 'rollback');
const reason = await client.get(undone).catch((error: { code: string }) => error.code);
console.log(`rolled back: ${reason}`);

await client.close();
await worker.stop();
await db.execute(sql`drop table ${orders}`);
await pool.end();
