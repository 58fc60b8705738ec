import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { newId } from '@drover/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { type ClientOptions, createClient } from '../../src/index.js';
import { type CallPeer, startCallPeer } from '../support/call-peer.js';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startPeer(options?: Parameters<typeof startCallPeer>[0]): Promise<CallPeer> {
  const peer = await startCallPeer(options);
  closers.push(() => peer.close());
  return peer;
}

function clientOf(options: ClientOptions) {
  const client = createClient(options);
  closers.push(() => client.close());
  return client;
}

/** Adds jobs one by one until the peer has a stream. */
async function untilStreamed(client: ReturnType<typeof createClient>, peer: CallPeer): Promise<void> {
  while (peer.jobs.stream === 0) await client.enqueue('a', 1);
}

describe('a client that adds jobs', () => {
  it('sends a single one over HTTP alone', async () => {
    const peer = await startPeer();
    await clientOf({ url: peer.url }).enqueue('a', 1);
    expect(peer.jobs).toEqual({ http: 1, stream: 0 });
    expect(peer.sockets.size).toBe(0);
  });

  it('goes over to one stream, also for many at a time', async () => {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url });
    await untilStreamed(client, peer);
    const before = peer.jobs.http;
    await Promise.all(Array.from({ length: 500 }, (_, index) => client.enqueue('a', index)));
    expect(peer.jobs.stream).toBeGreaterThanOrEqual(500);
    expect(peer.jobs.http).toBe(before);
    expect(peer.sockets.size).toBe(1);
  });

  it('sends large bodies over HTTP', async () => {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url });
    await untilStreamed(client, peer);
    const { http, stream } = peer.jobs;
    await client.enqueue('a', 'x'.repeat(100_000));
    expect(peer.jobs).toEqual({ http: http + 1, stream });
  });

  it('stays with HTTP where no stream can be had', async () => {
    const peer = await startPeer({ refusesStreams: true });
    const client = clientOf({ url: peer.url });
    for (let index = 0; index < 20; index++) await client.enqueue('a', index);
    expect(peer.jobs).toEqual({ http: 20, stream: 0 });
  });
});

describe('a stream that breaks', () => {
  it('with calls under way: they are repeated over HTTP', async () => {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url });
    await untilStreamed(client, peer);
    peer.onCall = (socket) => socket.terminate();
    const { http } = peer.jobs;
    const handle = await client.enqueue('a', 1);
    expect(handle.created).toBe(true);
    expect(peer.jobs.http).toBe(http + 1);
  });

  it('while idle: the next job goes over HTTP, and later ones over a new stream', async () => {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url });
    await untilStreamed(client, peer);
    for (const socket of peer.sockets) {
      socket.close(1001);
      await once(socket, 'close');
    }
    peer.jobs.stream = 0;
    await untilStreamed(client, peer);
    expect(peer.sockets.size).toBe(2);
  });

  it('by silence: the call times out and is repeated over HTTP', async () => {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url, timeout: 1500 });
    await untilStreamed(client, peer);
    peer.onCall = () => {};
    const { http } = peer.jobs;
    await client.enqueue('a', 1);
    expect(peer.jobs.http).toBe(http + 1);
  });

  it('by frames that are not answers: the call is repeated over HTTP', async () => {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url });
    await untilStreamed(client, peer);
    peer.onCall = (socket) => socket.send('what?');
    const { http } = peer.jobs;
    await client.enqueue('a', 1);
    expect(peer.jobs.http).toBe(http + 1);
  });
});

describe('jobs whose call has no answer', () => {
  const OVERLOADED = '{"error":{"code":"overloaded","message":"too much"}}';

  /** A client with a stream to a peer that has forgotten what it was asked. */
  async function streamedClient() {
    const peer = await startPeer();
    const client = clientOf({ url: peer.url });
    await untilStreamed(client, peer);
    peer.asked.length = 0;
    return { peer, client };
  }

  it('are sent again with the same ids, generated and given ones', async () => {
    const { peer, client } = await streamedClient();
    const id = newId();
    peer.onCall = (socket) => socket.terminate();
    const handles = await Promise.all([client.enqueue('a', 1), client.enqueue('b', 2, { id })]);
    const ids = handles.map((handle) => handle.id);
    expect(ids[1]).toBe(id);
    expect(peer.asked).toEqual([ids, ids]);
  });

  it('are sent again with the same ids by enqueueMany', async () => {
    const { peer, client } = await streamedClient();
    peer.onCall = (socket) => socket.terminate();
    const ids = (await client.enqueueMany('a', [1, 2, 3])).map((handle) => handle.id);
    expect(peer.asked).toEqual([ids, ids]);
  });

  it('are taken apart with the same ids if the repetition is refused', async () => {
    const { peer, client } = await streamedClient();
    peer.onCall = (socket) => socket.terminate();
    peer.refusesBatches = true;
    const handles = await Promise.all([client.enqueue('a', 1), client.enqueue('a', 2)]);
    const [first, second] = handles.map((handle) => handle.id) as [string, string];
    expect(peer.asked).toEqual([[first, second], [first, second], [first], [second]]);
  });

  it('are sent again over HTTP after a refusal that asks for it', async () => {
    const { peer, client } = await streamedClient();
    peer.onCall = (_socket, accept) => accept({ status: 429, retryAfterS: 0, body: OVERLOADED });
    const { http } = peer.jobs;
    const { id, created } = await client.enqueue('a', 1);
    expect(created).toBe(true);
    expect(peer.asked).toEqual([[id], [id]]);
    expect(peer.jobs.http).toBe(http + 1);
  });

  it('existed if the answer says so', async () => {
    const { peer, client } = await streamedClient();
    peer.onCall = (_socket, accept) => accept({ body: '{"existed":[1]}' });
    const handles = await client.enqueueMany('a', [1, 2, 3]);
    expect(handles.map(({ created }) => created)).toEqual([true, false, true]);
  });
});

it('an idle stream does not keep a process alive', async () => {
  const peer = await startPeer();
  const program = `
    import { createClient } from '@drover/sdk';
    const client = createClient({ url: '${peer.url}' });
    for (let index = 0; index < 200; index++) await client.enqueue('a', index);`;
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: import.meta.dirname,
    timeout: 20_000,
  });
  expect(peer.jobs.http + peer.jobs.stream).toBe(200);
  expect(peer.jobs.stream).toBeGreaterThan(0);
});

it('a call that waits for its answer keeps a process alive', async () => {
  const peer = await startPeer();
  peer.onCall = (_, accept) => setTimeout(accept, 300);
  const program = `
    import { createClient } from '@drover/sdk';
    const client = createClient({ url: '${peer.url}' });
    for (let index = 0; index < 2; index++) await client.enqueue('a', index);
    await new Promise((resolve) => setTimeout(resolve, 1000)); // the stream is open, and idle
    await client.enqueue('a', 2);
    console.log('added');`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: import.meta.dirname,
    timeout: 30_000,
  });
  expect(stdout).toBe('added\n');
  expect(peer.jobs).toEqual({ http: 2, stream: 1 });
});
