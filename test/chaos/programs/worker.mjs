/** The worker of the fault suite. Each of its handlers exists for a rule. */
import { setTimeout as delay } from 'node:timers/promises';
import { PermanentError, snooze } from '@drover/sdk';
import { createWorker, runWorker } from '@drover/sdk/worker';
import { isolated } from './isolated.mjs';
import { note, now, options, witnessed } from './witnessed.mjs';

const SLOTS = 30;
const { name, instance, urls, journalDir, isHeedful } = options;
const never = new Int32Array(new SharedArrayBuffer(4));

/** Reports that a planted job has started. */
const announce = ({ id, payload }) => {
  if (payload?.planted) process.send?.({ begun: id });
};
const sleep = async (job) => {
  announce(job);
  await delay(job.payload.ms, undefined, { signal: job.signal });
};

const jobs = [
  ...['noop', 'child', 'tick', 'delayed', `probe.${name}`].map((type) => witnessed(type, () => {})),
  ...['sleep', 'long', 'hold', 'cancelled', 'expiring', 'overtime'].map((type) => witnessed(type, sleep)),
  witnessed('flaky', ({ payload, attempt }, execution) => {
    if (attempt <= payload.times) throw new Error(`planned (execution ${execution})`);
  }),
  witnessed('broken', (_, execution) => {
    throw new PermanentError(`planned for good (execution ${execution})`);
  }),
  // by the clock that all processes of the machine share
  witnessed('snoozing', ({ payload }) => (Number(now()) / 1000 < payload.untilMs ? { snooze: snooze('500ms') } : {})),
  // only its first attempt is short: if that counts as lost, its outcome arrives while the next one runs
  witnessed('outrun', async (job) => {
    announce(job);
    const { payload, attempt, signal } = job;
    await delay(attempt === 1 ? payload.firstMs : payload.ms, undefined, { signal });
  }),
  witnessed('parent', ({ payload, enqueue }) => ({
    children: Array.from({ length: payload.children }, () => enqueue('child', {}).id),
  })),
  witnessed('broken-parent', ({ payload, enqueue }, execution) => {
    note('c', execution, ...Array.from({ length: payload.children }, () => enqueue('child', {}).id));
    throw new PermanentError(`planned for good (execution ${execution})`);
  }),
  isolated,
];
const heedless = [
  // ignores its signal
  witnessed('stubborn', async (job) => {
    announce(job);
    await delay(job.payload.ms);
  }),
  // blocks the event loop of this thread
  witnessed('block', ({ payload }) => {
    Atomics.wait(never, 0, 0, payload.ms);
  }),
];

process.on('disconnect', () => process.exit(1));
process.on('message', ({ kind }) => {
  if (kind === 'clock') process.send?.({ clock: Date.now() });
});
process.channel?.unref();

const log = (level) => (fields, message) =>
  process.stderr.write(`${JSON.stringify({ level, at: Date.now(), instance, message, ...fields })}\n`);
const logger = { debug() {}, info: log('info'), warn: log('warn'), error: log('error') };

await runWorker(
  createWorker({
    jobs: isHeedful ? jobs : [...jobs, ...heedless],
    ...{ name, url: urls, slots: SLOTS, drainTimeout: '3s', onLeaseLost: 'exit', journalDir, logger },
  }),
);
