/** Payloads that the SDK refuses. */
import { createClient, defineJob, defineSchedule } from '@drover/sdk';
import { z } from 'zod';
import { describeMistakes } from './support/mistakes.js';

/** Nothing listens there: these mistakes are found before anything is sent. */
const client = createClient({ url: 'http://127.0.0.1:9' });
const order = defineJob({
  type: 'order.place',
  payload: z.object({ items: z.array(z.object({ price: z.number() })), at: z.date().optional() }),
});

describeMistakes('payloads', [
  [
    'a BigInt in a payload',
    () => client.enqueue('order.place', { items: [{}, {}, { price: 5n }] }),
    'payload.items[2].price: expected a value that JSON can represent, got a BigInt; send it as a string',
  ],
  [
    'NaN in a payload',
    () => client.enqueue('order.place', { total: Number.NaN }),
    'payload.total: expected a value that JSON can represent, got NaN; send null or a string',
  ],
  [
    'a Map in a payload',
    () => client.enqueue('order.place', { items: new Map() }),
    'payload.items: expected a value that JSON can represent, got a Map; send Object.fromEntries(map)',
  ],
  [
    'a Set in a payload',
    () => client.enqueue('order.place', { items: new Set() }),
    'payload.items: expected a value that JSON can represent, got a Set; send [...set]',
  ],
  [
    'a function in a payload',
    () => client.enqueue('order.place', { done: () => {} }),
    'payload.done: expected a value that JSON can represent, got a function',
  ],
  [
    'undefined in a list',
    () => client.enqueue('order.place', [1, undefined]),
    'payload[1]: expected a value that JSON can represent, got undefined; send null or leave it out',
  ],
  [
    'a value that was not awaited',
    () => client.enqueue('order.place', { items: Promise.resolve([]) }),
    'payload.items: expected a value that JSON can represent, got a Promise; await it first',
  ],
  [
    'a payload of many that JSON cannot represent',
    () => client.enqueueMany('order.place', [{}, { total: 1n }]),
    'jobs[1]: payload.total: expected a value that JSON can represent, got a BigInt; send it as a string',
  ],
  [
    'a schema for a Date',
    () => client.enqueue(order, { items: [], at: new Date('2030-01-31T12:00:00Z') }),
    'payload.at: Invalid input: expected date, received string; JSON carries a Date as a string, so use a schema that ' +
      'accepts it, such as z.coerce.date()',
  ],
  [
    'a payload of the wrong type',
    () => client.enqueue(order, { items: [{ price: '5' }] } as never),
    'payload.items[0].price: Invalid input: expected number, received string; the value is "5"',
  ],
  [
    'a Map in the payload of a schedule',
    () => defineSchedule({ name: 'nightly', every: '1d', job: 'report', payload: { of: new Map() } }),
    'defineSchedule: payload.of: expected a value that JSON can represent, got a Map; send Object.fromEntries(map)',
  ],
]);
