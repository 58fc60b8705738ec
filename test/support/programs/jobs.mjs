/**
 * The jobs of the scenarios, for `worker.mjs` and for the command line. Each exercises one promise, and every start
 * and end is recorded with the witness first.
 */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { defineJob, handle, PermanentError, RetryAfter, snooze } from '@drover/sdk';
import { z } from 'zod';

const options = JSON.parse(process.env.WORKER_OPTIONS ?? '{}');
const witness = openSync(options.witness, 'a');
const gates = new Map();

/** Every process of this machine reads the same monotonic clock. */
const now = () => Number(process.hrtime.bigint() / 1000n) / 1000;

function note(event, { id, type, queue, attempt }, more) {
  const entry = { event, id, type, queue, attempt, worker: options.name, pid: process.pid, at: now(), ...more };
  writeSync(witness, `${JSON.stringify(entry)}\n`);
}

/** A handler whose start and end are recorded. */
function witnessed(definition, run) {
  return handle(typeof definition === 'string' ? defineJob({ type: definition }) : definition, async (job) => {
    note('start', job);
    job.signal.addEventListener('abort', () =>
      note('aborted', job, { reason: job.signal.reason.code ?? job.signal.reason.name }),
    );
    try {
      return await run(job);
    } finally {
      note('end', job);
    }
  });
}

function gate(name) {
  if (!gates.has(name)) {
    const made = {};
    made.promise = new Promise((resolve) => {
      made.resolve = resolve;
    });
    gates.set(name, made);
  }
  return gates.get(name);
}

/** Waits until the test opens the gate or the signal is aborted. */
function atGate(name, signal) {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    gate(name).promise.then(resolve);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

export const jobs = [
  witnessed('sum', ({ payload }) => ({ sum: payload.a + payload.b })),
  witnessed('hold', async ({ payload, signal }) => {
    await atGate(payload.gate, signal);
    return 'let go';
  }),
  witnessed('stubborn', async ({ payload }) => {
    await gate(payload.gate).promise;
    return 'done all the same';
  }),
  witnessed('work', ({ payload, signal }) => delay(payload.ms, undefined, { signal })),
  witnessed('fail', ({ payload, attempt }) => {
    if (attempt <= payload.times) throw new Error(`no luck with attempt ${attempt}`);
    return { attempt };
  }),
  witnessed('permanent', () => {
    throw new PermanentError('never again');
  }),
  witnessed('retry-after', ({ payload, attempt }) => {
    if (attempt === 1) throw new RetryAfter(payload.delay, 'the service is busy');
    return { attempt };
  }),
  (() => {
    const seen = new Set();
    return witnessed('snooze', ({ id, payload, attempt }) => {
      if (seen.has(id)) return { attempt };
      seen.add(id);
      return snooze(payload.delay);
    });
  })(),
  witnessed(defineJob({ type: 'checked', payload: z.object({ count: z.number() }) }), ({ payload }) => payload.count),
  // a job that must never run twice
  witnessed(
    defineJob({
      ...{ type: 'bank.wire', onLost: 'hold', maxAttempts: 1, timeout: '5s', queue: 'bank' },
      payload: z.object({ amount: z.number().positive().optional(), a: z.number().optional() }),
    }),
    ({ signal }) => atGate('bank', signal),
  ),
  witnessed('parent', async ({ payload, attempt, enqueue, signal }) => {
    for (const a of payload.children) enqueue(payload.childType ?? 'sum', { a, b: attempt });
    if (payload.dieInAttempt === attempt) process.kill(process.pid, 'SIGKILL');
    if (payload.gate) await atGate(payload.gate, signal);
    if (attempt <= (payload.failures ?? 0)) throw new Error('the parent fails');
    return payload.children.length;
  }),
  // what a handler gets to make a repetition harmless
  witnessed('keys', (job) => {
    const { id, idempotencyKey, attempt, fence } = job;
    note('keys', job, { keys: { id, idempotencyKey, attempt, fence } });
    if (job.payload.dieInAttempt === attempt) process.kill(process.pid, 'SIGKILL');
  }),
  witnessed('progress', async ({ payload, progress, signal }) => {
    progress({ done: 42, of: 100 });
    await atGate(payload.gate, signal);
  }),
  // for volume: one line per job and nothing else
  defineJob({
    type: 'count',
    run: (job) => {
      note('start', job);
      return job.payload;
    },
  }),
];

process.on('message', ({ open }) => gate(open).resolve());
// listening must not keep the process alive
process.channel?.unref();
