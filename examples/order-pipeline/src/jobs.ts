/** What the application and the workers share: the types of the jobs. This module loads no handler. */
import { defineJob } from '@drover/sdk';
import { z } from 'zod';

const orderPayload = z.object({ orderId: z.uuid() });

/** Takes the goods of an order from the stock. An order that fails for good is rejected by `onFailure`. */
export const reserve = defineJob({
  type: 'order.reserve',
  payload: orderPayload,
  maxAttempts: 5,
  timeout: '10s',
  onFailure: 'order.reject',
});

export const charge = defineJob({
  type: 'order.charge',
  payload: orderPayload,
  backoff: { kind: 'exponential', base: '200ms', max: '1m' },
  timeout: '30s',
});

/** Computes for a while, so its handler has a process of its own. */
export const invoice = defineJob({
  type: 'order.invoice',
  payload: orderPayload,
  queue: 'invoices',
  isolation: { kind: 'process', memory: '256MiB', reuse: 100 },
  timeout: '1m',
});

export const summarize = defineJob({
  type: 'orders.summarize',
  result: z.object({ orders: z.number(), cents: z.number() }),
});
