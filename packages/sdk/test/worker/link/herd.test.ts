/** Many workers that lose their server at the same time. */
import { STREAM_PATH } from '@drover/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Connection } from '../../../src/worker/link/connection.js';
import { patienceWith } from '../../../src/worker/link/patience.js';
import { ServerList } from '../../../src/worker/link/server-list.js';
import { StreamPeer } from '../../support/stream-peer.js';

const WORKERS = 40;
/** Spreads over 500 ms. */
const LEASE_MS = 15_000;
/** Shorter than it takes forty of them by chance about once in 10^20 runs. */
const AT_ONCE_MS = 100;

let left: StreamPeer;
let other: StreamPeer;
let connections: Connection[];
beforeEach(async () => {
  left = await new StreamPeer().listen();
  other = await new StreamPeer().listen();
  connections = [];
});
afterEach(async () => {
  await Promise.all(connections.map((connection) => connection.stop()));
  await left.close();
  await other.close();
});

/** Resolves when it has been welcomed by the server it is going to lose. */
async function connect(ageMs: number): Promise<Connection> {
  let welcomed = () => {};
  const isWelcomed = new Promise<void>((resolve) => {
    welcomed = resolve;
  });
  const connection = new Connection(
    new ServerList([left.url, other.url], 0),
    { path: STREAM_PATH, token: undefined, tls: {} },
    {
      ...{ opened() {}, frame() {}, lost() {}, refused() {}, log() {} },
      welcome: () => welcomed(),
      message: () => connection.moveOn(),
      numbered: () => 1,
      patience: () => patienceWith({ leaseMs: LEASE_MS, ageMs }),
    },
  );
  connections.push(connection);
  connection.start();
  const peer = await left.connection();
  peer.send({
    kind: 'welcome',
    version: 1,
    serverId: 'x',
    clusterId: 'x',
    beatMs: 1,
    leaseMs: 1,
    servers: [],
    dropped: [],
  });
  await isWelcomed;
  return connection;
}

/** When each of them came to the other server. */
async function arrivals(): Promise<number[]> {
  const at: number[] = [];
  while (at.length < WORKERS) {
    await other.connection();
    at.push(performance.now());
  }
  return at;
}
const between = (moments: readonly number[]) => Math.max(...moments) - Math.min(...moments);

describe('workers that lose their server at the same time', () => {
  it('do not all connect to the next one at once', async () => {
    for (let count = 0; count < WORKERS; count++) await connect(0);
    const moments = arrivals();
    await left.close();
    expect(between(await moments)).toBeGreaterThan(AT_ONCE_MS);
  });

  it('nor do they when it asks all of them to move on', async () => {
    for (let count = 0; count < WORKERS; count++) await connect(0);
    const moments = arrivals();
    left.sendAll({ kind: 'moveOn' });
    expect(between(await moments)).toBeGreaterThan(AT_ONCE_MS);
  });

  it('lose no time when their leases are half over', () => {
    expect(patienceWith({ leaseMs: LEASE_MS, ageMs: LEASE_MS / 2 }).spreadMs).toBe(0);
  });
});
