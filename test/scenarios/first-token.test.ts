/** A server whose only tokens are in the database: it starts when there is one, and a worker with a scope runs jobs. */
import { expect, test } from 'vitest';
import { drover } from '../../packages/server/test/cli/run-cli.js';
import { createStage } from '../support/stage.js';

const stage = createStage();
const SECURE = { DROVER_INSECURE: 'false' };

test('a server without tokens does not start; after the first one it does, and its clients and workers have their own', async () => {
  await expect(stage.startServer({ env: SECURE })).rejects.toThrow(
    'tokens: expected at least one in the database (`drover token bootstrap` makes the first one)',
  );
  const bootstrap = await drover(['token', 'bootstrap', '--database-url', stage.databaseUrl]);
  const server = await stage.startServer({ env: SECURE });
  const admin = stage.client(server.url, { token: bootstrap.stdout.trim() });
  const shop = await admin.tokens.create({ name: 'shop', role: 'client', types: ['sum'] });
  const fleet = await admin.tokens.create({ name: 'fleet', role: 'worker' });

  const denied = stage.client(server.url, { token: 'some-other-token-0123456789', retries: 0 });
  await expect(denied.stats()).rejects.toMatchObject({ code: 'unauthenticated' });
  await stage.startWorker({ name: 'worker', url: server.url, token: fleet.secret });
  const client = stage.client(server.url, { token: shop.secret });
  const handle = await client.enqueue('sum', { a: 1, b: 2 });
  expect(await handle.result({ timeout: '20s' })).toEqual({ sum: 3 });
  const used = (await admin.tokens.list()).map(({ name, kind }) => `${name} ${kind}`);
  expect(used.sort()).toEqual(['bootstrap token', 'fleet token', 'shop token']);
});
