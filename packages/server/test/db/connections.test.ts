/** The connections of one pool: who gets one, when, and what becomes of those that break. */
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Connection, type Connections, createConnections } from '../../src/db/connections.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const MAX = 2;
const LONG_MS = 60_000;

let database: TestDatabase;
const made: Connections[] = [];
let taken: { from: Connections; connection: Connection }[] = [];
let errors: Error[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  for (const { from, connection } of taken.splice(0)) from.giveBack(connection);
  for (const connections of made.splice(0)) await connections.end();
  errors = [];
});
afterAll(() => database.drop());

function connect({ url = database.url, deadlineMs = LONG_MS, settings = 'set application_name = probe' } = {}) {
  const connections = createConnections({
    ...{ url, settings, deadlineMs, max: MAX },
    onOpen: () => {},
    onError: (error) => errors.push(error),
  });
  made.push(connections);
  return connections;
}

async function take(from: Connections): Promise<Connection> {
  const connection = await from.take();
  taken.push({ from, connection });
  return connection;
}

function giveBack(connection: Connection): void {
  const { from } = taken.find((entry) => entry.connection === connection) as { from: Connections };
  taken = taken.filter((entry) => entry.connection !== connection);
  from.giveBack(connection);
}

async function pidOf({ client }: Connection): Promise<number> {
  return (await client.query('select pg_backend_pid() as pid')).rows[0].pid;
}

async function terminate(pid: number): Promise<void> {
  await database.pool.query('select pg_terminate_backend($1)', [pid]);
}

test('one that is free is had at once, the one used last first, with its settings', async () => {
  const connections = connect();
  const [first, second] = [await take(connections), await take(connections)];
  giveBack(first);
  giveBack(second);
  const again = connections.take();
  expect(again).toBe(second);
  taken.push({ from: connections, connection: second });
  expect((await second.client.query('show application_name')).rows).toEqual([{ application_name: 'probe' }]);
});

test('who comes when all are in use gets the next that is given back, in the order of coming', async () => {
  const connections = connect();
  const [first, second] = [await take(connections), await take(connections)];
  const got: string[] = [];
  const third = take(connections).then((connection) => {
    got.push('third');
    return connection;
  });
  const fourth = take(connections).then((connection) => {
    got.push('fourth');
    return connection;
  });
  giveBack(second);
  expect(await third).toBe(second);
  giveBack(first);
  expect(await fourth).toBe(first);
  expect(got).toEqual(['third', 'fourth']);
});

test('who waits for too long is told so, and takes nothing from those who come later', {
  timeout: 15_000,
}, async () => {
  const connections = connect();
  const [first] = [await take(connections), await take(connections)];
  await expect(connections.take()).rejects.toThrow('no connection to the database was free within 5000 ms');
  giveBack(first);
  expect(connections.take()).toBe(first);
  taken.push({ from: connections, connection: first });
});

test('one that breaks while it is free is told of and not given out', async () => {
  const connections = connect();
  const broken = await take(connections);
  const pid = await pidOf(broken);
  giveBack(broken);
  await terminate(pid);
  await expect.poll(() => errors.length).toBeGreaterThan(0);
  expect(await pidOf(await take(connections))).not.toBe(pid);
});

test('one that gets an error nobody asked for while it is free is closed, also if the database keeps it open', async () => {
  const target = new URL(database.url);
  const near: Socket[] = [];
  const proxy = createServer((socket) => {
    near.push(socket);
    const far = connectSocket(Number(target.port), target.hostname);
    socket.on('error', () => {}).on('close', () => far.destroy());
    far.on('error', () => {});
    socket.pipe(far).pipe(socket);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const url = new URL(database.url);
  url.port = String((proxy.address() as { port: number }).port);
  const connections = connect({ url: url.href });
  const connection = await take(connections);
  await pidOf(connection);
  giveBack(connection);
  const [socket] = near as [Socket];
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const fields = 'SERROR\0C57014\0Mno reason\0\0';
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + fields.length);
  socket.write(Buffer.concat([Buffer.from('E'), length, Buffer.from(fields)]));
  await closed;
  expect(errors).toMatchObject([{ message: 'no reason' }]);
  expect(await take(connections)).not.toBe(connection);
  for (const { connection: other } of [...taken]) giveBack(other);
  await connections.end();
  await new Promise((resolve) => proxy.close(resolve));
});

test('in place of one that comes back broken, another is opened for whoever waits', async () => {
  const connections = connect();
  const [broken] = [await take(connections), await take(connections)];
  const pid = await pidOf(broken);
  const waiting = take(connections);
  await terminate(pid);
  await expect.poll(() => broken.broken).toBeDefined();
  giveBack(broken);
  expect(await pidOf(await waiting)).not.toBe(pid);
});

test('one that cannot be opened is an error each time, and leaves room for the next', async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(database.url);
  url.port = String((server.address() as { port: number }).port);
  const connections = connect({ url: url.href });
  for (let round = 0; round < 3; round++) {
    const all = await Promise.allSettled(Array.from({ length: MAX + 2 }, () => connections.take()));
    expect(all.map(({ status }) => status)).toEqual(Array(MAX + 2).fill('rejected'));
  }
  await new Promise((resolve) => server.close(resolve));
});

test('one for which a file is missing is an error each time, and leaves room for the next', async () => {
  const connections = connect({ url: `${database.url}?sslrootcert=/nowhere` });
  for (let round = 0; round <= MAX; round++) await expect(connections.take()).rejects.toThrow('/nowhere');
  await connections.end();
});

test('one that is in use for longer than the deadline is destroyed; time while it is free does not count', async () => {
  const connections = connect({ deadlineMs: 400 });
  const connection = await take(connections);
  giveBack(connection);
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(connections.take()).toBe(connection);
  taken.push({ from: connections, connection });
  expect(await pidOf(connection)).toBeGreaterThan(0);
  await expect(connection.client.query('select pg_sleep(30)')).rejects.toThrow();
  expect(connection.failure).toMatchObject({ kind: 'unknown', message: 'no answer within 400 ms' });
  await expect.poll(() => connection.broken).toBeDefined();
});

test('ending refuses those who wait and those who come, and waits for what is in use', async () => {
  const connections = connect();
  const [first, second] = [await take(connections), await take(connections)];
  const waiting = expect(connections.take()).rejects.toThrow('have been closed');
  let isEnded = false;
  const ended = Promise.race([connections.end(), connections.end()]).then(() => {
    isEnded = true;
  });
  await waiting;
  await expect(connections.take()).rejects.toThrow('have been closed');
  giveBack(first);
  expect(await pidOf(second)).toBeGreaterThan(0);
  expect(isEnded).toBe(false);
  giveBack(second);
  await ended;
});

test('one that is being opened while they end is used once and then ended', async () => {
  const connections = connect();
  const opening = connections.take() as Promise<Connection>;
  const ended = connections.end();
  const connection = await opening;
  expect(await pidOf(connection)).toBeGreaterThan(0);
  connections.giveBack(connection);
  await ended;
});
