/** What happens to orders. Each function may run again after a crash, so each is harmless the second time. */
import { randomUUID } from 'node:crypto';
import { enqueueWith } from '@drover/sdk/postgres';
import { z } from 'zod';
import { pool, transaction } from './database.js';
import { reserve } from './jobs.js';

const CENTS = 450;

export const newOrderSchema = z.object({
  customer: z.string().min(1),
  sku: z.enum(['tea', 'samovar']),
  quantity: z.int().positive(),
});

export type Order = z.infer<typeof newOrderSchema> & { id: string; cents: number; state: string };

/** The order and its first job are committed together. */
export function placeOrder({ customer, sku, quantity }: z.infer<typeof newOrderSchema>): Promise<Order> {
  return transaction(async (connection) => {
    const values = [randomUUID(), customer, sku, quantity, quantity * CENTS];
    const inserted = await connection.query<Order>(
      'insert into orders (id, customer, sku, quantity, cents) values ($1, $2, $3, $4, $5) returning *',
      values,
    );
    const order = only(inserted.rows);
    await enqueueWith((sql, params) => connection.query(sql, params), reserve, { orderId: order.id });
    return order;
  });
}

export async function findOrder(id: string): Promise<Order | undefined> {
  return (await pool.query<Order>('select * from orders where id = $1', [id])).rows[0];
}

/** Returns whether the stock is enough. */
export function reserveStock(id: string): Promise<boolean> {
  return transaction(async (connection) => {
    const moved = await connection.query<Order>(
      `update orders set state = 'reserved' where id = $1 and state = 'placed' returning *`,
      [id],
    );
    const [order] = moved.rows;
    // An earlier attempt has done it.
    if (order === undefined) return true;
    const taken = await connection.query(
      'update stock set quantity = quantity - $2 where sku = $1 and quantity >= $2',
      [order.sku, order.quantity],
    );
    if (taken.rowCount === 0) await connection.query(`update orders set state = 'placed' where id = $1`, [id]);
    return taken.rowCount === 1;
  });
}

/** A payment service would get the key, and recognise by it that it has charged this order already. */
export async function takePayment(id: string, idempotencyKey: string): Promise<void> {
  await pool.query('insert into payments values ($1, $2) on conflict (idempotency_key) do nothing', [
    id,
    idempotencyKey,
  ]);
  await pool.query(`update orders set state = 'paid' where id = $1 and state = 'reserved'`, [id]);
}

export async function saveInvoice(id: string, text: string, sha256: string): Promise<void> {
  await pool.query('insert into invoices values ($1, $2, $3) on conflict (order_id) do nothing', [id, text, sha256]);
  await pool.query(`update orders set state = 'invoiced' where id = $1 and state = 'paid'`, [id]);
}

export async function rejectOrder(id: string): Promise<void> {
  await pool.query(`update orders set state = 'rejected' where id = $1 and state = 'placed'`, [id]);
}

export async function totals(): Promise<{ orders: number; cents: number }> {
  const { rows } = await pool.query<{ orders: number; cents: number }>(
    `select count(*)::integer as orders, coalesce(sum(cents), 0)::integer as cents from orders where state = 'invoiced'`,
  );
  return only(rows);
}

function only<T>(rows: readonly T[]): T {
  const [row] = rows;
  if (row === undefined) throw new Error('the database returned no row');
  return row;
}
