/** With `postgres` (postgres.js): an order and its job are committed together, or neither exists. */
import { createClient, defineJob } from '@drover/sdk';
import { enqueueWith } from '@drover/sdk/postgres';
import { createWorker } from '@drover/sdk/worker';
import postgres from 'postgres';

const confirm = defineJob<{ order: string }, string>({
  type: 'transactional-postgres-js.confirm',
  run: async ({ payload }) => `confirmed ${payload.order}`,
});

const sql = postgres(process.env.DROVER_DATABASE_URL ?? '', { onnotice: () => {} });
await sql`create table if not exists example_postgres_js_orders (id text primary key)`;

class Undo extends Error {}

async function placeOrder(order: string, outcome: 'commit' | 'rollback'): Promise<string> {
  let id = '';
  try {
    await sql.begin(async (tx) => {
      await tx`insert into example_postgres_js_orders values (${order}) on conflict do nothing`;
      const query = (text: string, params: unknown[]) => tx.unsafe(text, params as string[]);
      ({ id } = await enqueueWith(query, confirm, { order }));
      if (outcome === 'rollback') throw new Undo();
    });
  } catch (error) {
    if (!(error instanceof Undo)) throw error;
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
await sql`drop table example_postgres_js_orders`;
await sql.end();
