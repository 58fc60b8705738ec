/** The HTTP endpoint: `POST /orders`, `GET /orders/:id`, `POST /summaries`. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createClient } from '@drover/sdk';
import { z } from 'zod';
import { pool } from './database.js';
import { summarize } from './jobs.js';
import { findOrder, newOrderSchema, placeOrder } from './orders.js';

const MAX_BODY = 10_000;
const port = Number(process.env.PORT ?? 3000);
const drover = createClient();

type Answer = { status: number; body: unknown };

async function answer(request: IncomingMessage): Promise<Answer> {
  const { method, url = '' } = request;
  if (method === 'POST' && url === '/orders') {
    const order = newOrderSchema.safeParse(await readJson(request));
    if (!order.success) return { status: 400, body: { message: z.prettifyError(order.error) } };
    return { status: 202, body: await placeOrder(order.data) };
  }
  const id = /^\/orders\/([\da-f-]{36})$/.exec(url)?.[1];
  if (method === 'GET' && id !== undefined) {
    const order = await findOrder(id);
    return order ? { status: 200, body: order } : { status: 404, body: { message: `there is no order ${id}` } };
  }
  if (method === 'POST' && url === '/summaries') {
    const job = await drover.enqueue(summarize);
    return { status: 200, body: await job.result({ timeout: '20s' }) };
  }
  return { status: 404, body: { message: `there is no ${method} ${url}` } };
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk;
    if (text.length > MAX_BODY) throw new Error('the body is too long');
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const server = createServer(async (request, response) => {
  const { status, body } = await answer(request).catch((error: unknown) => {
    console.error(error);
    return { status: 500, body: { message: 'the request failed' } };
  });
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
});

process.once('SIGTERM', stop);
process.once('SIGINT', stop);
server.listen(port, '127.0.0.1', () => console.log(`the shop is open at http://127.0.0.1:${port}`));

/** Answers the requests that are in progress. */
async function stop(): Promise<void> {
  server.close();
  await once(server, 'close');
  await drover.close();
  await pool.end();
}
