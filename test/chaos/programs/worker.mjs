/**
 * The worker of the fault suite. Every start and end of a handler is one line, written by one call to a file
 * that lies outside the system under test: it needs no network, and a line that was begun is whole.
 *
 *   s <execution> <job> <attempt> <fence or 0> <type> <microseconds>
 *   e <execution> <ok | error | abort> <microseconds>
 */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { defineJob, PermanentError } from '@drover/sdk';
import { createWorker, handle, runWorker } from '@drover/sdk/worker';

const SLOTS = 30;
const { name, instance, urls, witness: path, dataDir, isHeedful } = JSON.parse(process.env.CHAOS_WORKER ?? '{}');
const witness = openSync(path, 'a');
const never = new Int32Array(new SharedArrayBuffer(4));
let executions = 0;

const now = () => process.hrtime.bigint() / 1000n;
const note = (...words) => writeSync(witness, `${words.join(' ')}\n`);

function witnessed(type, run) {
  return handle(defineJob({ type }), async (job) => {
    executions += 1;
    const execution = `${instance}:${executions}`;
    note('s', execution, job.id, job.attempt, job.fence ?? 0, type, now());
    if (job.payload?.planted) process.send?.(job.id);
    let end = 'ok';
    try {
      const more = await run(job);
      return { execution, attempt: job.attempt, ...more };
    } catch (error) {
      end = job.signal.aborted ? 'abort' : 'error';
      throw error;
    } finally {
      note('e', execution, end, now());
    }
  });
}

const sleep = async ({ payload, signal }) => {
  await delay(payload.ms, undefined, { signal });
};

const handlers = [
  witnessed('noop', () => {}),
  witnessed('child', () => {}),
  witnessed('sleep', sleep),
  witnessed('long', sleep),
  witnessed('hold', sleep),
  witnessed('flaky', ({ payload, attempt }) => {
    if (attempt <= payload.times) throw new Error('planned');
  }),
  witnessed('broken', () => {
    throw new PermanentError('planned for ever');
  }),
  // only the first is soon done: should it be taken for lost, its outcome comes while another one runs
  witnessed('outrun', async ({ payload, attempt, signal }) => {
    await delay(attempt === 1 ? payload.firstMs : payload.ms, undefined, { signal });
  }),
  witnessed('parent', ({ payload, enqueue }) => ({
    children: Array.from({ length: payload.children }, () => enqueue('child').id),
  })),
];
const heedless = [
  // goes on whatever it is told
  witnessed('stubborn', async ({ payload }) => {
    await delay(payload.ms);
  }),
  // nothing else of this thread goes on meanwhile
  witnessed('block', ({ payload }) => {
    Atomics.wait(never, 0, 0, payload.ms);
  }),
];

process.on('disconnect', () => process.exit(1));
process.channel?.unref();

const log = (level) => (fields, message) =>
  process.stderr.write(`${JSON.stringify({ level, at: Date.now(), instance, message, ...fields })}\n`);
const logger = { debug() {}, info: log('info'), warn: log('warn'), error: log('error') };
const options = {
  handlers: isHeedful ? handlers : [...handlers, ...heedless],
  name,
  url: urls,
  slots: SLOTS,
  drainTimeout: '3s',
  selfDestruct: true,
  dataDir,
  logger,
};

await runWorker(createWorker(options));
