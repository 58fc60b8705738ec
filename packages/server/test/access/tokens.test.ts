/** Tokens of the database over two servers: by the API, the SDK and the command line. */
import { once } from 'node:events';
import { CALLS_PATH, type TokenWithSecret } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { createServer, type DroverServer } from '../../src/server.js';
import { type ApiBench, createApiBench, TOKENS, tokenOf } from '../api/api-bench.js';
import { drover } from '../cli/run-cli.js';
import { connect, helloOf, type UpgradeRefused } from '../support/raw-worker.js';

let api: ApiBench;
let second: DroverServer;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS });
  second = createServer(api.config, { logger: pino({ level: 'silent' }) });
  await second.start();
});
afterAll(async () => {
  await second.stop();
  await api.close();
});

const admin = () => createClient({ url: api.server.address, token: tokenOf('admin'), retries: 0 });
const statusAt = async (server: DroverServer, token: string, path = '/api/v1/jobs') =>
  (await fetch(server.address + path, { headers: { authorization: `Bearer ${token}` } })).status;
const portOf = (server: DroverServer) => Number(new URL(server.address).port);

test('a token is created, used on every server, listed without its secret, and revoked', async () => {
  const client = admin();
  const created = await client.tokens.create({ name: 'shop', role: 'viewer' });
  expect(created).toMatchObject({
    name: 'shop',
    role: 'viewer',
    kind: 'token',
    state: 'active',
    createdBy: 'the-admin',
  });
  const days = (Date.parse(created.expiresAt ?? '') - Date.now()) / 86_400_000;
  expect(Math.round(days)).toBe(90);
  for (const server of [api.server, second]) {
    expect(await statusAt(server, created.secret)).toBe(200);
    expect(await statusAt(server, created.secret, '/api/v1/tokens')).toBe(403);
  }

  const listed = await client.tokens.list();
  expect(listed.find(({ name }) => name === 'shop')).toMatchObject({ id: created.id, state: 'active' });
  expect(JSON.stringify(listed)).not.toContain(created.secret.slice(-43));
  expect(listed).toContainEqual(expect.objectContaining({ id: null, kind: 'configured', name: 'the-admin' }));

  await expect(client.tokens.create({ name: 'shop', role: 'admin' })).rejects.toMatchObject({
    code: 'token_exists',
    message: 'there is a token with the name shop: rotate or revoke it, or choose another name',
  });
  expect(await client.tokens.revoke(created.id as string)).toBe(true);
  expect(await client.tokens.revoke(created.id as string)).toBe(false);
  await refusedWithin(5000, created.secret);
  // the name is free again
  expect(await client.tokens.create({ name: 'shop', role: 'viewer', expires: 'never' })).toMatchObject({
    expiresAt: null,
  });
  await client.close();
});

async function refusedWithin(ms: number, secret: string): Promise<void> {
  const until = performance.now() + ms;
  for (const server of [api.server, second]) {
    while ((await statusAt(server, secret)) !== 401) expect(performance.now()).toBeLessThan(until);
  }
}

test('revoking a token closes the streams of its worker and of its client within five seconds', async () => {
  const client = admin();
  const [worker, caller] = await Promise.all([
    client.tokens.create({ name: 'a-worker', role: 'worker' }),
    client.tokens.create({ name: 'a-caller', role: 'client' }),
  ]);
  const stream = await connect({ port: portOf(second), token: worker.secret });
  stream.send(helloOf());
  await stream.next('welcome');
  const authorization = `Bearer ${caller.secret}`;
  const calls = new WebSocket(`ws://127.0.0.1:${portOf(second)}${CALLS_PATH}`, { headers: { authorization } });
  await once(calls, 'open');

  const startedAt = performance.now();
  const callsClosed = once(calls, 'close');
  await Promise.all([client.tokens.revoke(worker.id as string), client.tokens.revoke(caller.id as string)]);
  expect(await stream.next('refused')).toMatchObject({
    code: 'unauthenticated',
    message: 'the token of this worker was revoked or has expired',
  });
  expect(await stream.closed).toBe(1008);
  expect((await callsClosed)[0]).toBe(1008);
  expect(performance.now() - startedAt).toBeLessThan(5000);
  const again = connect({ port: portOf(second), token: worker.secret });
  await expect(again).rejects.toMatchObject({ status: 401 } satisfies Partial<UpgradeRefused>);
  await client.close();
});

test('a worker keeps its session when its token is rotated', async () => {
  const client = admin();
  const token = await client.tokens.create({ name: 'rotating', role: 'worker' });
  const first = await connect({ port: api.port, token: token.secret });
  const hello = helloOf();
  first.send(hello);
  await first.next('welcome');
  const rotated = await client.tokens.rotate(token.id as string, { overlap: '10m' });
  expect(rotated).toMatchObject({ id: token.id, overlapUntil: expect.any(String), rotatedAt: expect.any(String) });
  const next = await connect({ port: portOf(second), token: rotated.secret });
  next.send({ ...hello, connection: hello.connection + 1 });
  expect(await next.next('welcome')).toMatchObject({ dropped: [] });
  expect(await statusAt(second, token.secret)).toBe(403);
  await client.close();
});

test('the command line creates, lists, rotates and revokes tokens', async () => {
  const run = (...args: string[]) =>
    drover(['token', ...args, '--url', api.server.address], { env: { DROVER_TOKEN: tokenOf('admin') } });
  const created = await run('create', 'by-command', '--role', 'viewer', '--expires', '1d');
  expect(created.code).toBe(0);
  const secret = created.stdout.trim();
  expect(await statusAt(api.server, secret)).toBe(200);
  expect(created.stderr).toMatch(/^by-command \(viewer, \S+\) expires .*\. The secret is shown only once\.\n$/);
  const { id } = JSON.parse((await run('list', '--json')).stdout).items.find(
    ({ name }: { name: string }) => name === 'by-command',
  );
  const rotated = JSON.parse((await run('rotate', id, '--overlap', '0ms', '--json')).stdout) as TokenWithSecret;
  expect(await statusAt(api.server, rotated.secret)).toBe(200);
  expect((await run('revoke', id)).stdout).toBe(`${id} is revoked\n`);
  await refusedWithin(5000, secret);
  await refusedWithin(5000, rotated.secret);
  expect(await run('create', 'bad', '--role', 'root')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^drover: role: expected one of "viewer", .*, got "root"\n$/),
  });
  expect(await run('create', 'bad', '--role', 'viewer', '--expires', 'soon')).toMatchObject({
    code: 2,
    stderr: 'drover: expires: expected "never" or a duration such as "90d", got "soon"\n',
  });
});

test('the first token is made in the database, without a server', async () => {
  const args = ['token', 'bootstrap', '--database-url', api.database.url, '--name', 'first'];
  const made = await drover(args);
  expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('first (admin, ') });
  expect(await statusAt(second, made.stdout.trim(), '/api/v1/tokens')).toBe(200);
  expect(await drover(args)).toMatchObject({
    code: 1,
    stderr: 'drover: there is a token with the name first: rotate or revoke it, or choose another name\n',
  });
});
