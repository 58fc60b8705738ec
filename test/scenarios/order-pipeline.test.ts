/**
 * examples/order-pipeline, done as its README says it, in a folder with nothing but the packed packages. Only the
 * addresses differ. Then the rolling deployment of the README, with a killed server in it: no order is lost.
 */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ROOT } from '../docs/support/page.js';
import { createPageWalk, type PageWalk } from '../docs/support/walk-page.js';
import { freePort } from '../support/free-port.js';
import { type PackedPackages, unpackPackages } from '../support/packed-packages.js';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

const EXAMPLE = 'examples/order-pipeline';
const PRINTED_DATABASE = 'postgres://shop:secret@127.0.0.1:5432/shop';
const TEST_MS = 120_000;

const stage = createStage();
/** By the printed one. */
const ports = new Map<string, number>();
let packed: PackedPackages;
let page: PageWalk;

beforeAll(async () => {
  packed = unpackPackages({ others: ['@types/node', '@types/pg', 'typescript'] });
  for (const part of ['src', 'package.json', 'tsconfig.json']) {
    cpSync(join(ROOT, EXAMPLE, part), join(packed.folder, part), { recursive: true });
  }
  for (const printed of ['8421', '8422', '3000']) ports.set(printed, await freePort());
  page = createPageWalk(`${EXAMPLE}/README.md`, { cwd: packed.folder, env: {}, here });
});
afterAll(async () => {
  await page?.stop();
  packed?.remove();
});

function here(text: string): string {
  const withPorts = [...ports].reduce((result, [printed, port]) => result.replaceAll(printed, String(port)), text);
  return withPorts.replaceAll(PRINTED_DATABASE, stage.databaseUrl);
}

/** The first column of the one row. */
async function numberOf(sql: string, params: unknown[] = []): Promise<number> {
  const { rows } = await stage.pool.query<{ n: number }>(sql, params);
  return Number(rows[0]?.n);
}

const countOf = (state: string) => numberOf('select count(*) as n from orders where state = $1', [state]);

async function order(sku: string): Promise<Response> {
  const body = JSON.stringify({ customer: 'Grace', sku, quantity: 2 });
  return fetch(`http://127.0.0.1:${ports.get('3000')}/orders`, { method: 'POST', body });
}

it(
  'runs as its README says it',
  async () => {
    await page.walk();
    expect([...page.terminals.keys()]).toEqual(['server-1', 'server-2', 'worker', 'app', 'customers']);
    await until('orders are invoiced', async () => (await countOf('invoiced')) > 3);
  },
  TEST_MS,
);

it('refuses callers without a token', async () => {
  const answer = await fetch(`http://127.0.0.1:${ports.get('8421')}/api/v1/stats`);
  expect(answer.status).toBe(401);
});

it('rejects an order that the stock cannot serve', async () => {
  expect((await order('samovar')).status).toBe(202);
  await until('the order is rejected', async () => (await countOf('rejected')) === 1);
});

it(
  'loses no order in a rolling deployment, nor when a server is killed',
  async () => {
    await page.terminals.get('server-1')?.stop('SIGKILL');
    await page.start('server-1');
    await page.terminals.get('server-2')?.stop();
    await page.start('server-2');
    const firstWorker = page.terminals.get('worker');
    await page.start('worker');
    await firstWorker?.stop();
    expect(firstWorker?.output()).toContain('worker has stopped');
    // the customers have noticed nothing
    await page.terminals.get('customers')?.stop();
    const answers = page.terminals.get('customers')?.output() ?? '';
    expect(answers).not.toMatch(/curl|message/);

    await until('every order has ended', async () => {
      const open = `select count(*) as n from orders where state not in ('invoiced', 'rejected')`;
      return (await numberOf(open)) === 0;
    });
    const accepted = Array.from(answers.matchAll(/"id":"([^"]+)"/g), ([, id]) => id);
    expect(accepted.length).toBeGreaterThan(10);
    const invoiced = `select count(*) as n from orders where state = 'invoiced' and id = any($1)`;
    expect(await numberOf(invoiced, [accepted])).toBe(accepted.length);
    // everything was done once
    const orders = await countOf('invoiced');
    expect(await numberOf('select count(*) as n from payments')).toBe(orders);
    expect(await numberOf('select count(*) as n from invoices')).toBe(orders);
    const sold = await numberOf(`select 100000 - quantity as n from stock where sku = 'tea'`);
    expect(sold).toBe(await numberOf(`select sum(quantity) as n from orders where state = 'invoiced'`));
  },
  TEST_MS,
);
