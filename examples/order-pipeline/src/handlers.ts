/** The handlers: `drover worker dist/handlers.js` runs every job that this module exports. */
import { createHash } from 'node:crypto';
import { handle, PermanentError } from '@drover/sdk';
import { charge, invoice, reserve, summarize } from './jobs.js';
import { findOrder, rejectOrder, reserveStock, saveInvoice, takePayment, totals } from './orders.js';

/** As much work as a document with a few pages. */
const ROUNDS = 20_000;

export const reserving = handle(
  reserve,
  async ({ payload: { orderId }, enqueue }) => {
    if (!(await reserveStock(orderId))) throw new PermanentError('not enough in stock');
    // Created by the commit that completes this job.
    enqueue(charge, { orderId });
  },
  {
    onFailure: async ({ job, error, log }) => {
      log.warn({ order: job.payload.orderId, reason: error.message }, 'order rejected');
      await rejectOrder(job.payload.orderId);
    },
  },
);

export const charging = handle(charge, async ({ payload: { orderId }, idempotencyKey, enqueue }) => {
  await takePayment(orderId, idempotencyKey);
  enqueue(invoice, { orderId });
});

export const invoicing = handle(invoice, async ({ payload: { orderId } }) => {
  const order = await findOrder(orderId);
  if (order === undefined) throw new PermanentError(`there is no order ${orderId}`);
  const text = `${order.customer}: ${order.quantity} × ${order.sku}, ${(order.cents / 100).toFixed(2)} €`;
  let sha256 = text;
  for (let round = 0; round < ROUNDS; round++) sha256 = createHash('sha256').update(sha256).digest('hex');
  await saveInvoice(orderId, text, sha256);
});

export const summarizing = handle(summarize, () => totals());
