import { type Assignment, DroverError } from '@drover/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineJob, handle, type JobContext, PermanentError, type RunnableJob, snooze } from '../../src/index.js';
import { createWorker, type Worker, type WorkerOptions } from '../../src/worker/index.js';
import { gate } from '../support/gate.js';
import { assignment, type PeerConnection, StreamPeer } from '../support/stream-peer.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const echo = defineJob({ type: 'echo' });
const echoHandler = handle(echo, async ({ payload }) => payload);

let peer: StreamPeer;
let workers: Worker[] = [];
beforeEach(async () => {
  peer = await new StreamPeer().listen();
});
afterEach(async () => {
  peer.oblige();
  await Promise.all(workers.map((worker) => worker.stop()));
  workers = [];
  await peer.close();
});

function workerWith(jobs: RunnableJob[], options: Partial<WorkerOptions> = {}): Worker {
  const worker = createWorker({ jobs, url: options.url ?? peer.url, logger: silent, drainTimeout: 0, ...options });
  workers.push(worker);
  return worker;
}

async function registered(worker: Worker): Promise<PeerConnection> {
  const started = worker.start();
  const connection = await peer.connection();
  await connection.welcome();
  await started;
  return connection;
}

describe('registration', () => {
  it('says who it is, what it can do and how much it takes', async () => {
    const worker = workerWith([echoHandler], { slots: 3, queues: ['a', 'b'], name: 'w-1', prefetch: 2 });
    const started = worker.start();
    const hello = await (await peer.connection()).welcome();
    await started;
    expect(hello).toMatchObject({ sessionId: worker.sessionId, name: 'w-1', types: ['echo'], queues: ['a', 'b'] });
    expect(hello).toMatchObject({ slots: 3, window: 5, holds: [], pid: process.pid });
    expect(worker.state).toBe('ready');
  });

  it('waits for a server that starts later', async () => {
    const { url } = peer;
    await peer.close();
    const worker = workerWith([echoHandler], { url });
    const started = worker.start();
    peer = await new StreamPeer().listen(Number(new URL(url).port));
    await (await peer.connection()).welcome();
    await started;
  });

  it('can be stopped while it waits for a server', async () => {
    const worker = workerWith([echoHandler]);
    const started = worker.start();
    const failure = expect(started).rejects.toThrow('stopped before a server accepted it');
    await worker.stop();
    await failure;
  });

  it('fails at once if the first server does not accept its token', async () => {
    peer.refusal = { status: 401, body: { error: { code: 'unauthenticated', message: 'not a known token' } } };
    const worker = workerWith([echoHandler]);
    const failure = await worker.start().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(DroverError);
    expect(failure).toMatchObject({ code: 'unauthenticated', message: 'not a known token' });
    expect(worker.state).toBe('stopped');
  });

  it('fails at once if the first server refuses its hello', async () => {
    const started = workerWith([echoHandler]).start();
    (await peer.connection()).send({ kind: 'refused', code: 'not_acceptable', message: 'too old' });
    await expect(started).rejects.toMatchObject({ code: 'not_acceptable' });
  });

  it('gives up on a signal', async () => {
    const abort = new AbortController();
    const started = workerWith([echoHandler]).start({ signal: abort.signal });
    abort.abort(new Error('enough'));
    await expect(started).rejects.toThrow('enough');
  });

  it('is refused with the nearest name for an unknown option', () => {
    expect(() => workerWith([echoHandler], { slot: 3 } as never)).toThrow('did you mean "slots"?');
    expect(() => workerWith([echoHandler, echoHandler])).toThrow('one handler for each job type');
    expect(() => workerWith([])).toThrow('at least one job');
  });
});

describe('running jobs', () => {
  it('reports results in batches and offers the room they leave', async () => {
    const connection = await registered(workerWith([echoHandler], { slots: 2, prefetch: 0 }));
    const jobs = [assignment('echo', { n: 1 }), assignment('echo', undefined)];
    connection.assign(...jobs);
    const outcomes = await connection.takeOutcomes(2);
    expect(outcomes[0]).toMatchObject({ id: jobs[0]?.id, fence: 1, kind: 'succeeded', result: '{"n":1}' });
    expect(outcomes[1]).not.toHaveProperty('result');
    expect((await connection.take('offer')).window).toBe(4);
  });

  it('runs no more at once than it has slots', async () => {
    const release = gate();
    let most = 0;
    const worker: Worker = workerWith(
      [
        handle(echo, async () => {
          most = Math.max(most, worker.running);
          await release.passed;
        }),
      ],
      { slots: 2, prefetch: 3 },
    );
    const connection = await registered(worker);
    connection.assign(...Array.from({ length: 5 }, () => assignment('echo', 1)));
    release.open();
    await connection.takeOutcomes(5);
    expect(most).toBe(2);
  });

  it("hands the handler the schema's output and does not call it for a payload that does not fit", async () => {
    const dated = defineJob({
      type: 'dated',
      payload: z.object({ at: z.string().transform((text) => new Date(text)) }),
    });
    let calls = 0;
    const handler = handle(dated, ({ payload }) => {
      calls++;
      return payload.at.getUTCFullYear();
    });
    const connection = await registered(workerWith([handler]));
    connection.assign(assignment('dated', { at: '2031-01-01' }), assignment('dated', { at: 5 }));
    const [good, bad] = await connection.takeOutcomes(2);
    const byKind = [good, bad].sort((a, b) => String(b?.kind).localeCompare(String(a?.kind)));
    expect(byKind[0]).toMatchObject({ kind: 'succeeded', result: '2031' });
    expect(byKind[1]).toMatchObject({
      kind: 'failed',
      error: { code: 'invalid_payload', message: expect.stringMatching(/^payload\.at: .*the value is 5$/) },
    });
    expect(calls).toBe(1);
  });

  it('takes a payload that was left out where the schema allows that', async () => {
    const optional = defineJob({ type: 'optional', payload: z.object({ n: z.number() }).optional() });
    const nothing = defineJob({ type: 'nothing', payload: z.null() });
    const jobs = [handle(optional, ({ payload }) => typeof payload), handle(nothing, ({ payload }) => payload)];
    const connection = await registered(workerWith(jobs, { slots: 1 }));
    connection.assign(assignment('optional', null), assignment('nothing', null));
    expect(await connection.takeOutcomes(2)).toMatchObject([{ result: '"undefined"' }, { result: 'null' }]);
  });

  it('gives back a job it has no handler for', async () => {
    const connection = await registered(workerWith([echoHandler]));
    connection.assign(assignment('other', 1));
    expect(await connection.takeOutcomes(1)).toMatchObject([{ kind: 'released' }]);
  });

  it('sends children with the success alone', async () => {
    const child = defineJob({ type: 'child', payload: z.object({ n: z.number() }), queue: 'small' });
    const parent = defineJob<{ fails: boolean }>({ type: 'parent' });
    const handler = handle(parent, ({ payload, enqueue }) => {
      enqueue(child, { n: 1 }, { delay: '1m' });
      if (payload.fails) throw new PermanentError('no');
    });
    const connection = await registered(workerWith([handler], { slots: 1, prefetch: 1 }));
    connection.assign(assignment('parent', { fails: false }), assignment('parent', { fails: true }));
    const [succeeded, failed] = await connection.takeOutcomes(2);
    expect(succeeded).toMatchObject({
      children: [{ type: 'child', queue: 'small', delay: 60_000, payload: { n: 1 } }],
    });
    expect(failed).not.toHaveProperty('children');
  });

  it('fails a job whose child does not pass an asynchronous schema', async () => {
    const child = defineJob({ type: 'child', payload: z.string().refine(async (text) => text !== 'bad') });
    const parent = defineJob({ type: 'parent' });
    const handler = handle(parent, ({ enqueue }) => enqueue(child, 'bad').id);
    const connection = await registered(workerWith([handler]));
    connection.assign(assignment('parent', null));
    expect(await connection.takeOutcomes(1)).toMatchObject([{ kind: 'failed', error: { name: 'DroverError' } }]);
  });

  it.each([
    [
      'a result',
      () => ({ rows: [{ id: 1n }] }),
      'result.rows[0].id: expected a value that JSON can represent, got a BigInt',
    ],
    [
      'a child',
      ({ enqueue }) => enqueue('child', { of: new Map() }).id,
      'child.payload.of: expected a value that JSON can represent, got a Map',
    ],
    [
      'progress',
      ({ progress }) => progress({ percent: Number.NaN }),
      'progress.percent: expected a value that JSON can represent, got NaN',
    ],
  ] as [string, (context: JobContext) => unknown, string][])(
    'fails an attempt whose JSON cannot represent %s',
    async (_what, run, message) => {
      const connection = await registered(workerWith([handle(echo, run)]));
      connection.assign(assignment('echo', 1));
      const [outcome] = await connection.takeOutcomes(1);
      expect(outcome).toMatchObject({ kind: 'failed', error: { message: expect.stringContaining(message) } });
    },
  );

  it('does not repeat an attempt whose result its reader could not get', async () => {
    const dated = defineJob({ type: 'echo', result: z.object({ at: z.date() }) });
    const connection = await registered(workerWith([handle(dated, () => ({ at: new Date(0) }))]));
    connection.assign(assignment('echo', 1));
    const [outcome] = await connection.takeOutcomes(1);
    expect(outcome).toMatchObject({ error: { code: 'invalid_result', message: expect.stringContaining('a Date as') } });
    expect(outcome).not.toHaveProperty('retryInMs');
  });

  it('sends the latest progress of a job', async () => {
    const release = gate();
    const handler = handle(echo, async ({ progress }) => {
      progress({ done: 1 });
      progress({ done: 2 });
      await release.passed;
    });
    const connection = await registered(workerWith([handler]));
    connection.assign(assignment('echo', 1));
    expect((await connection.take('progress')).items).toMatchObject([{ fence: 1, value: '{"done":2}' }]);
    release.open();
  });

  it('snoozes', async () => {
    const connection = await registered(workerWith([handle(echo, () => snooze('5m'))]));
    connection.assign(assignment('echo', 1));
    expect(await connection.takeOutcomes(1)).toMatchObject([{ kind: 'snoozed', inMs: 300_000 }]);
  });

  it('reports a timeout only when the handler has stopped', async () => {
    let reason: unknown;
    const handler = handle(echo, async ({ signal }) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      reason = signal.reason;
      return 'too late';
    });
    const connection = await registered(workerWith([handler]));
    connection.assign(assignment('echo', 1, { options: { timeout: 10 } }));
    const [outcome] = await connection.takeOutcomes(1);
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'timeout' }, retryInMs: expect.any(Number) });
    expect(reason).toMatchObject({ name: 'TimeoutError' });
  });
});

it('hands back what waits when slow jobs have taken all slots', async () => {
  const release = gate();
  const handler = handle(echo, async ({ payload }) => {
    if (payload === 'slow') await release.passed;
  });
  const connection = await registered(workerWith([handler], { slots: 1 }));
  for (let n = 0; n < 8; n++) {
    connection.assign(assignment('echo', n));
    await connection.takeOutcomes(1);
  }
  const waiting = assignment('echo', 'waits');
  connection.assign(assignment('echo', 'slow'), waiting);
  expect(await connection.takeOutcomes(1)).toMatchObject([{ id: waiting.id, kind: 'released' }]);
  release.open();
});

it('hands back jobs that have not started when it is asked to, and finishes the running ones', async () => {
  const release = gate();
  const isStarted = gate();
  const handler = handle(echo, () => {
    isStarted.open();
    return release.passed;
  });
  const connection = await registered(workerWith([handler], { slots: 1, prefetch: 2 }));
  const [running, ...waiting] = [1, 2, 3].map((n) => assignment('echo', n));
  connection.assign(running as Assignment, ...waiting);
  await isStarted.passed;
  connection.send({ kind: 'handBack' });
  const released = await connection.takeOutcomes(2);
  expect(released).toEqual(waiting.map(({ id }) => ({ id, fence: 1, kind: 'released' })));
  release.open();
  expect(await connection.takeOutcomes(1)).toMatchObject([{ id: running?.id, kind: 'succeeded' }]);
});

it('says that it ignores pauses, if it does', async () => {
  const stubborn = workerWith([echoHandler], { ignorePause: true }).start();
  expect(await (await peer.connection()).welcome()).toMatchObject({ ignorePause: true });
  await stubborn;
  const plain = workerWith([echoHandler]).start();
  expect(await (await peer.connection()).welcome()).not.toHaveProperty('ignorePause');
  await plain;
});

it('starts nothing that comes after it began to stop', async () => {
  let calls = 0;
  const release = gate();
  const isStarted = gate();
  const handler = handle(echo, () => {
    calls++;
    isStarted.open();
    return release.passed;
  });
  const worker = workerWith([handler], { slots: 2, prefetch: 0, drainTimeout: '10s' });
  const connection = await registered(worker);
  connection.assign(assignment('echo', 1));
  await isStarted.passed;
  void worker.stop();
  await connection.take('drain');
  const late = assignment('echo', 2);
  connection.assign(late);
  expect(await connection.takeOutcomes(1)).toMatchObject([{ id: late.id, kind: 'released' }]);
  expect(calls).toBe(1);
  release.open();
});

describe('cancelling', () => {
  const untilAborted = handle(echo, async ({ signal }) => {
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    throw signal.reason;
  });

  it('tells a running job to stop and ends a waiting one at once', async () => {
    const connection = await registered(workerWith([untilAborted], { slots: 1, prefetch: 1 }));
    const [running, waiting] = [assignment('echo', 1), assignment('echo', 2)];
    connection.assign(running, waiting);
    const items = [running, waiting].map(({ id, fence }) => ({ id, fence, reason: 'cancelled' as const }));
    connection.send({ kind: 'cancel', items });
    const outcomes = await connection.takeOutcomes(2);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['cancelled', 'cancelled']);
  });

  it('shows the operator a job that still runs long after it was told to stop', async () => {
    const release = gate();
    const started = workerWith([handle(echo, () => release.passed)]).start();
    const connection = await peer.connection();
    await connection.welcome({ beatMs: 500 });
    connection.answerBeats();
    await started;
    const job = assignment('echo', 1);
    connection.assign(job);
    connection.send({ kind: 'cancel', items: [{ id: job.id, fence: 1, reason: 'cancelled' }] });
    for (;;) {
      const { trouble } = await connection.take('beat');
      if (trouble === undefined) continue;
      expect(trouble).toBe(`job ${job.id} still runs after it was told to stop`);
      break;
    }
    release.open();
  });

  it('says nothing of a job that was lost while its payload was checked, and did not fit', async () => {
    const [looked, go] = [gate(), gate()];
    const payload = z.unknown().refine(async () => {
      looked.open();
      await go.passed;
      return false;
    });
    const picky = handle(defineJob({ type: 'picky', payload }), () => {});
    const worker = workerWith([picky, echoHandler], { slots: 1 });
    const connection = await registered(worker);
    const first = assignment('picky', 1);
    connection.assign(first);
    await looked.passed;
    const second = { ...first, fence: 2 };
    connection.assign(second);
    // The newer grant waits for the older one, and is handed back.
    connection.send({ kind: 'handBack' });
    expect(await connection.takeOutcomes(1)).toEqual([{ id: first.id, fence: 2, kind: 'released' }]);
    const other = assignment('echo', 2);
    connection.assign(other);
    go.open();
    // In the only slot, so after the first; and the next to be told.
    expect(await connection.takeOutcomes(1)).toMatchObject([{ id: other.id, kind: 'succeeded' }]);
  });

  it('says nothing of a job that was lost, and runs its next grant only after the first has stopped', async () => {
    const settle = gate();
    const seen: string[] = [];
    const handler = handle(echo, async ({ payload, signal }) => {
      seen.push(`start ${payload}`);
      if (payload === 'first') {
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        await settle.passed;
      }
      seen.push(`end ${payload}`);
    });
    const connection = await registered(workerWith([handler]));
    const first = assignment('echo', 'first');
    connection.assign(first);
    connection.send({ kind: 'cancel', items: [{ id: first.id, fence: 1, reason: 'lost' }] });
    connection.assign({ ...first, fence: 2, payload: 'second' });
    connection.assign(assignment('echo', 'other'));
    const [other] = await connection.takeOutcomes(1);
    expect(other).toMatchObject({ kind: 'succeeded' });
    settle.open();
    expect(await connection.takeOutcomes(1)).toMatchObject([{ id: first.id, fence: 2, kind: 'succeeded' }]);
    expect(seen).toEqual(['start first', 'start other', 'end other', 'end first', 'start second', 'end second']);
  });
});

describe('a lost connection', () => {
  it('interrupts nothing: the worker comes back with what it holds and resends outcomes until acknowledged', async () => {
    const release = gate();
    const handler = handle(echo, async ({ payload }) => {
      if (payload === 'slow') await release.passed;
    });
    const worker = workerWith([handler], { slots: 2, prefetch: 0 });
    const connection = await registered(worker);
    const [slow, quick] = [assignment('echo', 'slow'), assignment('echo', 'quick')];
    connection.assign(slow, quick);
    await connection.takeOutcomes(1);
    connection.cut();

    const second = await peer.connection();
    const hello = await second.welcome();
    expect(hello.sessionId).toBe(worker.sessionId);
    expect(hello.holds).toEqual(expect.arrayContaining([slow, quick].map(({ id }) => ({ id, fence: 1 }))));
    expect(hello.window).toBe(1);
    expect(await second.takeOutcomes(1)).toMatchObject([{ id: quick.id }]);
    second.ack([quick]);
    release.open();
    expect(await second.takeOutcomes(1)).toMatchObject([{ id: slow.id, kind: 'succeeded' }]);
    second.cut();

    const third = await peer.connection();
    expect((await third.welcome()).holds).toEqual([{ id: slow.id, fence: 1 }]);
  });

  it('sends again what was in frames that were not acknowledged, by the number of the frame or by name', async () => {
    const connection = await registered(workerWith([echoHandler]));
    const finish = async (job: Assignment) => {
      connection.assign(job);
      return connection.take('outcomes');
    };
    const [first, named, open] = [assignment('echo', 1), assignment('echo', 2), assignment('echo', 3)];
    const { batch } = await finish(first);
    await finish(named);
    const { batch: openBatch } = await finish(open);
    connection.ack([named]);
    // a number that is not, or no longer, known says nothing
    connection.ackBatch(1_000_000);
    connection.ackBatch(batch);
    connection.ackBatch(batch);
    connection.cut();

    const second = await peer.connection();
    expect((await second.welcome()).holds).toEqual([{ id: open.id, fence: 1 }]);
    const again = await second.take('outcomes');
    expect(again.items).toMatchObject([{ id: open.id }]);
    expect(again.batch).toBeGreaterThan(openBatch as number);
    second.ackBatch(again.batch);
    second.cut();
    expect((await (await peer.connection()).welcome()).holds).toEqual([]);
  });

  it('makes the worker forget what the next server says is no longer its own', async () => {
    const connection = await registered(workerWith([echoHandler]));
    const job = assignment('echo', 1);
    connection.assign(job);
    const dropped = await connection.takeOutcomes(1);
    connection.cut();
    const second = await peer.connection();
    await second.welcome({ dropped });
    second.cut();
    expect((await (await peer.connection()).welcome()).holds).toEqual([]);
  });

  it('is noticed when the server is silent', async () => {
    const started = workerWith([echoHandler]).start();
    const connection = await peer.connection();
    await connection.welcome({ beatMs: 20 });
    await started;
    expect(await connection.take('beat')).toMatchObject({ running: 0 });
    await connection.closed;
    await (await peer.connection()).welcome();
  });

  it('sends an outcome again on the same connection when no acknowledgement comes', async () => {
    const started = workerWith([echoHandler]).start();
    const connection = await peer.connection();
    await connection.welcome({ beatMs: 20 });
    await started;
    const job = assignment('echo', 1);
    connection.assign(job);
    await connection.takeOutcomes(1);
    for (let beat = 0; beat < 3; beat++) {
      connection.send({ kind: 'beat', beat: (await connection.take('beat')).beat, servers: [] });
    }
    const again = await connection.take('outcomes');
    expect(again.items).toMatchObject([{ id: job.id }]);
    connection.ackBatch(again.batch);
    connection.cut();
    expect((await (await peer.connection()).welcome()).holds).toEqual([]);
  });

  it('is asked for by a server that goes, and the worker moves to another that it was told of', async () => {
    const other = await new StreamPeer().listen();
    try {
      const worker = workerWith([echoHandler]);
      const started = worker.start();
      const connection = await peer.connection();
      await connection.welcome({ servers: [other.url] });
      await started;
      connection.send({ kind: 'moveOn' });
      await connection.closed;
      expect((await (await other.connection()).welcome()).sessionId).toBe(worker.sessionId);
      await worker.stop();
    } finally {
      await other.close();
    }
  });
});

describe('stop', () => {
  it('hands back what waits, lets the running job finish, waits for the acknowledgement and says bye', async () => {
    const release = gate();
    const isStarted = gate();
    const handler = handle(echo, () => {
      isStarted.open();
      return release.passed;
    });
    const worker = workerWith([handler], { slots: 1, prefetch: 1, drainTimeout: '10s' });
    const connection = await registered(worker);
    const [running, waiting] = [assignment('echo', 1), assignment('echo', 2)];
    connection.assign(running, waiting);
    await isStarted.passed;

    const stopped = worker.stop();
    expect(worker.stop()).toEqual(stopped);
    await connection.take('drain');
    expect(await connection.takeOutcomes(1)).toMatchObject([{ id: waiting.id, kind: 'released' }]);
    const late = assignment('echo', 3);
    connection.assign(late);
    expect(await connection.takeOutcomes(1)).toMatchObject([{ id: late.id, kind: 'released' }]);
    connection.ack([waiting, late]);
    release.open();
    expect(await connection.takeOutcomes(1)).toMatchObject([{ id: running.id, kind: 'succeeded' }]);
    connection.ack([running]);
    await connection.take('bye');
    connection.close();
    expect(await stopped).toBe(true);
    expect(worker.state).toBe('stopped');
  });

  it('tells handlers to stop when the drain takes too long', async () => {
    const isStarted = gate();
    const handler = handle(echo, async ({ signal }) => {
      isStarted.open();
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      throw signal.reason;
    });
    const worker = workerWith([handler], { drainTimeout: 10 });
    const connection = await registered(worker);
    connection.assign(assignment('echo', 1));
    await isStarted.passed;
    const stopped = worker.stop();
    const outcomes = await connection.takeOutcomes(1);
    expect(outcomes).toMatchObject([{ kind: 'released' }]);
    connection.ack(outcomes);
    await connection.take('bye');
    connection.close();
    await stopped;
  });
});
