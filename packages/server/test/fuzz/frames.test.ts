/** Frames of a hostile worker, beside an honest one. */
import { newId, workerMessageSchema } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  FUZZ_TIMEOUT_MS,
  fuzz,
  hasCandidate,
  hostileText,
  inputOf,
  KNOWN_ID,
} from '../../../../test/support/hostile-input.js';
import { partsOf } from '../../../../test/support/walk-schema.js';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { connect, helloOf, type RawWorker, register, succeeded } from '../support/raw-worker.js';

let bench: ApiBench;
let honest: RawWorker;
const problems: string[] = [];
const HONEST = `honest-${newId()}`;
const BEAT_MS = 200;

let beat = 0;
let beats: NodeJS.Timeout;
beforeAll(async () => {
  bench = await createApiBench({ beatMs: BEAT_MS, leaseMs: 3000 }, (line) => problems.push(line));
  honest = (await register(bench.port, { types: [HONEST], name: 'honest' })).worker;
  beats = setInterval(() => honest.send({ kind: 'beat', beat: ++beat, running: 0, received: beat }), BEAT_MS);
});
afterAll(async () => {
  clearInterval(beats);
  await bench.close();
});

async function add(type: string): Promise<string> {
  const { body } = await bench.call('/api/v1/jobs', { method: 'POST', body: { type } });
  return (body as { id: string }).id;
}

/** One job of the honest worker, from its enqueue to its acknowledged outcome. */
async function runHonestJob(): Promise<void> {
  honest.send({ kind: 'offer', window: ++offered });
  const id = await add(HONEST);
  const { jobs } = await honest.next('assign');
  expect(jobs).toMatchObject([{ id, fence: 1 }]);
  honest.send({ kind: 'progress', items: [{ id, fence: 1, value: '1' }] });
  honest.send({ kind: 'outcomes', items: [succeeded({ id, fence: 1 }, { result: '"done"' })] });
  expect((await honest.next('ack')).items).toEqual([{ id, fence: 1 }]);
}
let offered = 10;

const frame = fc.oneof(
  { weight: 6, arbitrary: inputOf(workerMessageSchema).map((message) => JSON.stringify(message) ?? '') },
  { weight: 1, arbitrary: hostileText },
);

/** A worker that is welcomed and has a job sends these frames; or they are the first that its connection hears. */
async function sendFrames(frames: readonly string[], isWelcomed: boolean): Promise<void> {
  const worker = await connect({ port: bench.port });
  let known = KNOWN_ID;
  if (isWelcomed) {
    const type = `hostile-${newId()}`;
    worker.send(helloOf({ types: [type], name: 'hostile' }));
    await worker.next('welcome');
    known = await add(type);
    await worker.next('assign');
  }
  for (const text of frames) if (worker.isOpen) worker.send(text.replaceAll(KNOWN_ID, known));
  // frames are handled in order, so the answer to this one shows that all have been
  const last = { id: newId(), fence: 1 };
  if (worker.isOpen) worker.send({ kind: 'outcomes', items: [succeeded(last)] });
  await Promise.race([worker.closed, untilStale(worker, last.id)]);
  const [refused] = worker.waiting('refused');
  expect(refused?.code).not.toBe('internal');
  worker.terminate();
}

async function untilStale(worker: RawWorker, id: string): Promise<void> {
  while (worker.isOpen) {
    const ack = await worker.next('ack').catch(() => undefined);
    if (ack === undefined || ack.stale.some((grant) => grant.id === id)) return;
  }
}

test('the generator knows valid input for every part of a frame', () => {
  const leaves = partsOf(workerMessageSchema, '').filter(({ kind }) => kind === 'leaf');
  expect(leaves.filter(({ schema }) => !hasCandidate(schema)).map(({ path }) => path)).toEqual([]);
});

test(
  'whatever frames a worker sends, others keep their leases, their progress and their results',
  async () => {
    const property = fc.asyncProperty(fc.array(frame, { maxLength: 6 }), fc.boolean(), async (frames, isWelcomed) => {
      await Promise.all([sendFrames(frames, isWelcomed), runHonestJob()]);
      expect(honest.isOpen).toBe(true);
      expect(problems).toEqual([]);
    });
    await fuzz(property);
    await honest.next('beat');
    expect((await bench.call('/api/v1/jobs?limit=1000&include=payload,result,progress,stack')).status).toBe(200);
    expect((await bench.call('/api/v1/workers')).status).toBe(200);
  },
  FUZZ_TIMEOUT_MS,
);
