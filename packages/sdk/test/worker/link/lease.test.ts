/** What a worker does about its lease, seen from a scripted server; workers that may die are real processes. */
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { defineJob, handle, type RunnableJob } from '../../../src/index.js';
import { createWorker, type Worker, type WorkerOptions } from '../../../src/worker/index.js';
import { gate } from '../../support/gate.js';
import { assignment, type PeerConnection, StreamPeer } from '../../support/stream-peer.js';
import { WorkerProcess } from '../../support/worker-process.js';
import { isRunning } from '../isolation/support.js';

/** Long enough for a loaded machine to answer within, short enough to wait for its end. */
const LEASE = { beatMs: 200, leaseMs: 1500 };

const silent = { debug() {}, info() {}, warn() {}, error() {} };

let peer: StreamPeer;
const processes: WorkerProcess[] = [];
const workers: Worker[] = [];
beforeEach(async () => {
  peer = await new StreamPeer().listen();
});
afterEach(async () => {
  peer.oblige();
  await Promise.all(processes.splice(0).map((each) => each.kill()));
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
  await peer.close();
});

function processWith(options: Partial<WorkerOptions> = {}): WorkerProcess {
  const started = new WorkerProcess({ options: { url: peer.url, slots: 2, ...options } });
  processes.push(started);
  return started;
}

async function workerWith(jobs: RunnableJob[], options: Partial<WorkerOptions> = {}): Promise<PeerConnection> {
  const worker = createWorker({
    jobs,
    url: peer.url,
    logger: silent,
    drainTimeout: 0,
    ...options,
  });
  workers.push(worker);
  const started = worker.start();
  const connection = await peer.connection();
  await connection.welcome(LEASE);
  await started;
  return connection;
}

describe('a handler that blocks the event loop', () => {
  it('keeps neither the beats from going nor the worker from saying that it is blocked', async () => {
    const worker = processWith();
    const connection = await peer.connection();
    await connection.welcome({ beatMs: 50, leaseMs: 30_000 });
    connection.answerBeats();
    const job = assignment('block', 1);
    connection.assign(job);
    await worker.says(`started block ${job.id}`);
    for (;;) {
      const { running, received, trouble } = await connection.take('beat');
      if (trouble === undefined) continue;
      expect({ running, received }).toEqual({ running: 1, received: 1 });
      expect(trouble).toContain('blocked the event loop');
      break;
    }
    const unheard = assignment('echo', 2);
    connection.assign(unheard);
    await connection.take('beat');
    expect((await connection.take('beat')).received).toBe(1);
  });

  it('lets the worker move to another server with all it holds, without taking more', async () => {
    const worker = processWith({ onLeaseLost: 'exit' });
    const connection = await peer.connection();
    await connection.welcome();
    const [done, blocking] = [assignment('echo', 1), assignment('block', 2)];
    connection.assign(done);
    connection.ack(await connection.takeOutcomes(1));
    connection.assign(blocking);
    await worker.says(`started block ${blocking.id}`);
    connection.send({ kind: 'moveOn' });
    await connection.closed;
    const hello = await (await peer.connection()).welcome();
    expect(hello.window).toBe(0);
    expect(hello.holds).toContainEqual({ id: blocking.id, fence: 1 });
  });
});

describe('a worker that no server confirms', () => {
  it('stops the jobs that other workers may start, lets held jobs run, reports both after it reconnects, and takes jobs again', async () => {
    const release = gate();
    const stopped = gate();
    const reasons: unknown[] = [];
    const obey = handle(defineJob({ type: 'obey' }), ({ signal }) => {
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          reject(signal.reason);
          stopped.open();
        });
      });
    });
    const slow = handle(defineJob({ type: 'slow' }), ({ signal }) => release.passed.then(() => signal.aborted));
    const connection = await workerWith([obey, slow], { slots: 2, prefetch: 1 });
    const [lost, held] = [assignment('obey', 1), assignment('slow', 2, { options: { onLost: 'hold' } })];
    const waiting = assignment('slow', 3);
    connection.assign(lost, held, waiting);
    peer.refusal = { status: 503, body: { error: { code: 'database_unavailable', message: 'not now' } } };
    connection.cut();
    await stopped.passed;
    expect(reasons).toMatchObject([{ name: 'AbortError', code: 'lost' }]);
    peer.refusal = undefined;

    const second = await peer.connection();
    const hello = await second.welcome({ leaseMs: 30_000 });
    expect(hello.holds.map(({ id }) => id)).toEqual(expect.arrayContaining([lost.id, held.id, waiting.id]));
    const outcomes = await second.takeOutcomes(2);
    expect(outcomes).toContainEqual({ id: lost.id, fence: 1, kind: 'lost' });
    expect(outcomes).toContainEqual({ id: waiting.id, fence: 1, kind: 'released' });
    second.ack(outcomes);
    release.open();
    expect(await second.takeOutcomes(1)).toMatchObject([{ id: held.id, kind: 'succeeded', result: 'false' }]);
    const next = assignment('slow', 4);
    second.assign(next);
    expect(await second.takeOutcomes(1)).toMatchObject([{ id: next.id, kind: 'succeeded' }]);
  });

  it('forgets what it stopped if the next server says that it is no longer its own', async () => {
    const stopped = gate();
    const obey = handle(defineJob({ type: 'obey' }), async ({ signal }) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      stopped.open();
      throw signal.reason;
    });
    const connection = await workerWith([obey]);
    const job = assignment('obey', 1);
    connection.assign(job);
    peer.refusal = { status: 503, body: { error: { code: 'database_unavailable', message: 'not now' } } };
    connection.cut();
    await stopped.passed;
    peer.refusal = undefined;
    const second = await peer.connection();
    await second.welcome({ leaseMs: 30_000, dropped: [job] });
    second.cut();
    expect((await (await peer.connection()).welcome()).holds).toEqual([]);
  });

  it('hands back what it is given while it doubts its lease', async () => {
    const started: unknown[] = [];
    const echo = handle(defineJob({ type: 'echo' }), ({ payload }) => void started.push(payload));
    const connection = await workerWith([echo]);
    // Beats go unanswered, all else does not: a server that cannot renew leases.
    let kind: string | undefined;
    let given = 0;
    for (; kind !== 'released'; given++) {
      await connection.take('beat');
      connection.assign(assignment('echo', given));
      const outcomes = await connection.takeOutcomes(1);
      connection.ack(outcomes);
      kind = outcomes[0]?.kind;
    }
    expect(started).toHaveLength(given - 1);
  });

  it('shows the jobs that do not stop, if it may not end its process', async () => {
    const release = gate();
    const ignore = handle(defineJob({ type: 'ignore' }), () => release.passed);
    const connection = await workerWith([ignore]);
    connection.assign(assignment('ignore', 1));
    for (;;) {
      const { trouble } = await connection.take('beat');
      connection.send({ kind: 'cancel', items: [] });
      if (trouble?.includes('the lease expired but handlers still run (1)')) break;
    }
    release.open();
  });
});

describe('a worker whose server dies', () => {
  it('gets past servers that do not answer while its lease lasts, and interrupts nothing', async () => {
    const release = gate();
    const slow = handle(defineJob({ type: 'slow' }), ({ signal }) => release.passed.then(() => signal.aborted));
    const healthy = await new StreamPeer().listen();
    const deaf = await Promise.all([1, 2, 3].map(deafServer));
    try {
      const worker = createWorker({ jobs: [slow], url: peer.url, logger: silent });
      workers.push(worker);
      const started = worker.start();
      const connection = await peer.connection();
      const lease = { beatMs: 300, leaseMs: 4500 };
      await connection.welcome({ ...lease, servers: [...deaf.map(({ url }) => url), healthy.url] });
      await started;
      const job = assignment('slow', 1);
      connection.assign(job);
      await connection.take('beat');
      connection.cut();
      const second = await healthy.connection();
      expect((await second.welcome(lease)).holds).toEqual([{ id: job.id, fence: 1 }]);
      second.answerBeats();
      release.open();
      expect(await second.takeOutcomes(1)).toMatchObject([{ id: job.id, kind: 'succeeded', result: 'false' }]);
    } finally {
      healthy.oblige();
      await Promise.all(workers.splice(0).map((worker) => worker.stop()));
      await healthy.close();
      await Promise.all(deaf.map((server) => server.close()));
    }
  });
});

/** Accepts connections and sends nothing, as the kernel does for a frozen process. */
async function deafServer(): Promise<{ url: string; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => socket.destroy()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe('onLeaseLost', () => {
  it.each(['block', 'ignore'])(
    'ends the process when a handler that will not stop (%s) has lost its lease',
    async (type) => {
      const worker = processWith({ onLeaseLost: 'exit' });
      const connection = await peer.connection();
      await connection.welcome(LEASE);
      const job = assignment(type, 1);
      connection.assign(job);
      await worker.says(`started ${type} ${job.id}`);
      if (type === 'ignore') await worker.says('aborted ignore lost');
      expect(await worker.ended).toEqual({ code: null, signal: 'SIGKILL' });
      expect(worker.lines.join('\n')).not.toContain('"exits":false');
      expect(worker.lines.join('\n')).toContain('worker ends its process');
    },
  );

  it('spares a process whose jobs stop, and one that runs only held jobs', async () => {
    const worker = processWith({ onLeaseLost: 'exit' });
    const connection = await peer.connection();
    await connection.welcome(LEASE);
    const held = assignment('ignore', 1, { options: { onLost: 'hold' } });
    connection.assign(assignment('obey', 2), held);
    await worker.says(`started ignore ${held.id}`);
    peer.refusal = { status: 503, body: { error: { code: 'database_unavailable', message: 'not now' } } };
    connection.cut();
    await worker.says('no server confirms the lease');
    await worker.says('lease expired');
    peer.refusal = undefined;
    const hello = await (await peer.connection()).welcome();
    expect(hello.holds).toContainEqual({ id: held.id, fence: 1 });
  });

  it('kills the processes of isolated handlers, also while the event loop is blocked, and spares the rest', async () => {
    const worker = processWith({ onLeaseLost: 'exit' });
    const connection = await peer.connection();
    await connection.welcome({ beatMs: 200, leaseMs: 30_000 });
    connection.answerBeats();
    const held = assignment('block', 1, { options: { onLost: 'hold' } });
    connection.assign(assignment('isolated', 2));
    const pid = Number((await connection.take('progress')).items[0]?.value);
    expect(isRunning(pid)).toBe(true);
    connection.assign(held);
    await worker.says(`started block ${held.id}`);
    connection.cut();
    // A short lease, which no server renews.
    const second = await peer.connection();
    await second.welcome(LEASE);
    await expect.poll(() => isRunning(pid), { timeout: 20_000 }).toBe(false);
    expect(worker.child.exitCode ?? worker.child.signalCode).toBeNull();
  });

  it('ends a process that was paused for longer than its lease before it reports anything', async () => {
    const worker = processWith({ onLeaseLost: 'exit' });
    const connection = await peer.connection();
    await connection.welcome({ beatMs: 50, leaseMs: 1000 });
    connection.answerBeats();
    const job = assignment('ignore', 1);
    connection.assign(job);
    await worker.says(`started ignore ${job.id}`);
    worker.signal('SIGSTOP');
    // Time must pass: the pause is what is tested.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    worker.signal('SIGCONT');
    expect(await worker.ended).toEqual({ code: null, signal: 'SIGKILL' });
    expect(worker.lines.join('\n')).toContain('the lease expired');
  });

  it('is abort for a worker inside an application, which is told so only when it happens', async () => {
    const worker = new WorkerProcess({ options: { url: peer.url }, ownsProcess: false });
    processes.push(worker);
    const connection = await peer.connection();
    await connection.welcome(LEASE);
    const job = assignment('ignore', 1);
    connection.assign(job);
    await worker.says(`started ignore ${job.id}`);
    expect(worker.lines.filter((line) => /^(warn|error) /.test(line))).toEqual([]);
    await worker.says('aborted ignore lost');
    await worker.says('with onLeaseLost "exit" the process ends');
    expect(worker.child.exitCode ?? worker.child.signalCode).toBeNull();
  });
});

describe('the test switch that takes self-stop away', () => {
  it('lets handlers run on after the end of the lease, and starts nothing then', async () => {
    const options = { url: peer.url, slots: 2, onLeaseLost: 'exit' as const };
    const worker = new WorkerProcess({ options, without: ['self-stop'] });
    processes.push(worker);
    const connection = await peer.connection();
    await connection.welcome(LEASE);
    const job = assignment('obey', 1);
    connection.assign(job);
    await worker.says(`started obey ${job.id}`);
    for (let sinceMs = 0; sinceMs < 2 * LEASE.leaseMs; sinceMs += LEASE.beatMs) {
      await connection.take('beat');
      // anything, so that it does not take us for dead
      connection.send({ kind: 'cancel', items: [] });
    }
    connection.assign(assignment('echo', 2));
    expect(await connection.takeOutcomes(1)).toMatchObject([{ kind: 'released' }]);
    expect(worker.lines.join('\n')).not.toContain('aborted');
  });
});

describe('the link thread', () => {
  it('is replaced when it dies, and the worker keeps all jobs that it holds', async () => {
    const release = gate();
    const isStarted = gate();
    const threads: { postMessage(value: unknown): void }[] = [];
    const seen = (thread: { postMessage(value: unknown): void }) => threads.push(thread);
    process.on('worker', seen);
    const slow = handle(defineJob({ type: 'slow' }), () => {
      isStarted.open();
      return release.passed;
    });
    const connection = await workerWith([slow]);
    process.off('worker', seen);
    const job = assignment('slow', 1);
    connection.assign(job);
    await isStarted.passed;
    // Not a message it knows: it throws.
    threads[0]?.postMessage(null);
    await connection.closed;
    const second = await peer.connection();
    const hello = await second.welcome();
    expect(hello.holds).toEqual([{ id: job.id, fence: 1 }]);
    // counted over the threads, or the server would take it for a hello that comes late
    expect(hello.connection).toBe(2);
    release.open();
    expect(await second.takeOutcomes(1)).toMatchObject([{ id: job.id, kind: 'succeeded' }]);
  });

  it('takes its process with it, if that is what a lost lease does', async () => {
    const worker = processWith({ onLeaseLost: 'exit' });
    const connection = await peer.connection();
    await connection.welcome();
    // Without a list of servers: it throws.
    connection.send({ kind: 'beat', beat: 1 } as never);
    expect(await worker.ended).toEqual({ code: null, signal: 'SIGKILL' });
    expect(worker.lines.join('\n')).toContain('the link thread failed');
  });

  it.each(['exit', 'abort'] as const)('makes the start fail if it ends before a welcome (%s)', async (onLeaseLost) => {
    const worker = processWith({ onLeaseLost });
    const connection = await peer.connection();
    await connection.take('hello');
    // Without a list of servers: it throws.
    connection.send({ kind: 'welcome' } as never);
    expect(await worker.ended).toEqual({ code: 1, signal: null });
    expect(worker.lines.join('\n')).toContain("Error: the worker's link thread cannot run: ");
  });
});
