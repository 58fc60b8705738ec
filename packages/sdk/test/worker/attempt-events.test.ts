import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineJob, handle, PermanentError, RetryAfter, type RunnableJob, snooze } from '../../src/index.js';
import type { LogFields } from '../../src/logger.js';
import { createWorker, type Worker, type WorkerEvents } from '../../src/worker/index.js';
import { assignment, type PeerConnection, StreamPeer } from '../support/stream-peer.js';

type Line = { level: string; fields: LogFields; message: string };

const ENDINGS = ['succeeded', 'failed', 'snoozed', 'cancelled', 'released', 'lost'] as const;

let peer: StreamPeer;
let worker: Worker;
let lines: Line[];
let told: [event: string, values: Record<string, unknown>][];
beforeEach(async () => {
  peer = await new StreamPeer().listen();
  lines = [];
  told = [];
});
afterEach(async () => {
  peer.oblige();
  await worker.stop();
  await peer.close();
});

async function start(...jobs: RunnableJob[]): Promise<PeerConnection> {
  const write = (level: string) => (fields: LogFields, message: string) => void lines.push({ level, fields, message });
  const logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  worker = createWorker({ jobs, url: peer.url, logger, drainTimeout: 0 });
  for (const event of ['started', ...ENDINGS] as const) {
    worker.on(event, (values) => void told.push([event, values as Record<string, unknown>]));
  }
  const started = worker.start();
  const connection = await peer.connection();
  await connection.welcome();
  await started;
  return connection;
}

const failing = (error: unknown, changes: object = {}) =>
  defineJob({
    type: 'mail',
    run: () => {
      throw error;
    },
    ...changes,
  });
const attemptLines = () => lines.filter(({ fields }) => fields.event === 'attempt.failed');

/** The next `count` ends of attempts. */
function ends(count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    for (const event of ENDINGS) {
      worker.on(event, () => {
        left--;
        if (left === 0) resolve();
      });
    }
  });
}

describe('the events of an attempt', () => {
  it('are one when it starts and one when it ends, with what the handler was given and what it returned', async () => {
    const connection = await start(defineJob({ type: 'sum', run: ({ payload }) => ({ is: payload }) }));
    const ended = ends(1);
    const job = assignment('sum', [1, 2], { fence: 7, attempt: 2, queue: 'maths' });
    connection.assign(job);
    await ended;
    const info = { id: job.id, type: 'sum', queue: 'maths', attempt: 2, maxAttempts: 10, fence: 7, payload: [1, 2] };
    expect(told).toEqual([
      ['started', info],
      ['succeeded', { ...info, runMs: expect.any(Number), result: { is: [1, 2] } }],
    ]);
    expect(attemptLines()).toEqual([]);
  });

  it('of a failure have the error that was thrown, and when the next attempt starts', async () => {
    const error = new TypeError('no such address');
    const connection = await start(failing(error));
    const ended = ends(1);
    const job = assignment('mail', null, {
      ...{ attempt: 2, options: { backoff: { kind: 'fixed', delay: 60_000, jitter: 0 } } },
    });
    const before = Date.now();
    connection.assign(job);
    await ended;
    const [, [event, failed] = []] = told;
    expect(event).toBe('failed');
    expect(failed?.error).toBe(error);
    expect(failed).toMatchObject({ id: job.id, isFinal: false });
    const nextTryAt = failed?.nextTryAt instanceof Date ? failed.nextTryAt : new Date(0);
    expect(nextTryAt.getTime() - before).toBeGreaterThanOrEqual(60_000);
    expect(nextTryAt.getTime() - Date.now()).toBeLessThanOrEqual(60_000);
    const fields = { jobId: job.id, jobType: 'mail', queue: 'default', attempt: 2, maxAttempts: 10 };
    expect(attemptLines()).toEqual([
      {
        level: 'warn',
        message: 'attempt failed; the job is tried again',
        fields: {
          ...{ event: 'attempt.failed', ...fields, error: 'TypeError: no such address' },
          nextTryAt: nextTryAt.toISOString(),
        },
      },
    ]);
  });

  it.each([
    ['the last of its attempts', new Error('full'), { attempt: 10 }],
    ['a permanent error', new PermanentError('gone'), { attempt: 1 }],
  ])('say that a job has failed for good by %s', async (_reason, error, changes) => {
    const connection = await start(failing(error));
    const ended = ends(1);
    connection.assign(assignment('mail', null, changes));
    await ended;
    expect(told[1]).toMatchObject(['failed', { error, isFinal: true, nextTryAt: undefined }]);
    expect(attemptLines()).toMatchObject([
      { level: 'error', message: 'attempt failed; it was the last', fields: { isFinal: true } },
    ]);
  });

  it('do not count attempts that were lost with their worker', async () => {
    const connection = await start(failing(new RetryAfter('5s')));
    const ended = ends(1);
    connection.assign(assignment('mail', null, { attempt: 10, lostAttempts: 1 }));
    await ended;
    expect(told[1]).toMatchObject(['failed', { isFinal: false }]);
  });

  it('of a payload that does not match are a failure with the reason', async () => {
    const connection = await start(defineJob({ type: 'mail', payload: z.string(), run: () => {} }));
    const ended = ends(1);
    connection.assign(assignment('mail', 5));
    await ended;
    expect(told[1]).toMatchObject(['failed', { isFinal: true, payload: 5 }]);
    expect(String(told[1]?.[1].error)).toMatch(/payload: .*the value is 5$/);
  });

  it('give an Error also if the handler threw something else', async () => {
    const connection = await start(failing('no error'));
    const ended = ends(1);
    connection.assign(assignment('mail', null));
    await ended;
    expect(told[1]?.[1].error).toBeInstanceOf(Error);
    expect(told[1]).toMatchObject(['failed', { error: { message: 'no error' } }]);
  });

  it('tell of a snooze, a cancel, a loss and a stop', async () => {
    const kinds: Record<string, () => unknown> = { nap: () => snooze('1m') };
    const waiting = (type: string) =>
      handle(defineJob({ type }), async ({ signal }) => {
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      });
    const connection = await start(
      handle(defineJob({ type: 'nap' }), () => kinds.nap?.()),
      ...['cancelled', 'lost', 'released'].map(waiting),
    );
    const nap = ends(1);
    connection.assign(assignment('nap', null));
    await nap;
    expect(told.at(-1)).toMatchObject(['snoozed', { nextTryAt: expect.any(Date), runMs: expect.any(Number) }]);
    for (const reason of ['cancelled', 'lost'] as const) {
      const job = assignment(reason, null);
      const running = new Promise((resolve) => worker.on('started', resolve));
      connection.assign(job);
      await running;
      const ended = ends(1);
      connection.send({ kind: 'cancel', items: [{ id: job.id, fence: 1, reason }] });
      await ended;
      expect(told.at(-1)).toMatchObject([reason, { id: job.id }]);
    }
    const running = new Promise((resolve) => worker.on('started', resolve));
    connection.assign(assignment('released', null));
    await running;
    peer.oblige();
    await worker.stop();
    expect(told.at(-1)).toMatchObject(['released', { type: 'released' }]);
    expect(told.filter(([event]) => event === 'started')).toHaveLength(4);
    expect(told).toHaveLength(8);
  });
});

describe('a listener', () => {
  it('that throws or rejects is logged, and harms neither the job nor other listeners', async () => {
    const connection = await start(defineJob({ type: 'sum', run: () => 3 }));
    worker.on('started', () => {
      throw new Error('no metrics');
    });
    worker.on('succeeded', () => Promise.reject(new Error('no Sentry')));
    const ended = ends(1);
    connection.assign(assignment('sum', null));
    await ended;
    expect(await connection.takeOutcomes(1)).toMatchObject([{ kind: 'succeeded', result: '3' }]);
    expect(lines.filter(({ fields }) => fields.event === 'listener.failed')).toMatchObject([
      { level: 'error', fields: { listensTo: 'started', err: { message: 'no metrics' } } },
      { level: 'error', fields: { listensTo: 'succeeded', err: { message: 'no Sentry' } } },
    ]);
  });

  it('is no longer called when its function for that was called', async () => {
    const connection = await start(defineJob({ type: 'sum', run: () => 3 }));
    const calls: string[] = [];
    const listener = (name: string) => () => void calls.push(name);
    const forget = worker.on('succeeded', listener('forgotten'));
    worker.on('succeeded', listener('kept'));
    forget();
    const ended = ends(1);
    connection.assign(assignment('sum', null));
    await ended;
    expect(calls).toEqual(['kept']);
  });

  it('of an unknown event is refused', () => {
    worker = createWorker({ jobs: [defineJob({ type: 'sum', run: () => 3 })], url: peer.url });
    const event = 'completed' as keyof WorkerEvents;
    expect(() => worker.on(event, () => {})).toThrow('worker.on: event: expected one of started, succeeded, failed');
  });
});
