/** The producer process: adds jobs to one system in the ways the workloads ask for. */
import { serveCalls } from '../lib/calls.mjs';
import { monotonicMs, sleep } from '../lib/clock.mjs';
import { makePayload } from '../lib/payload.mjs';
import { loadSystem } from '../systems/index.mjs';

const context = JSON.parse(process.argv[2]);
const system = await loadSystem(context.system);
const producer = await system.openProducer(context);

/** Runs `add(first index, how many)` in `lanes` parallel loops until `count` jobs are added or the time is up. */
async function addInLanes({ count, lanes, step, maxMs, add }) {
  const startedAt = monotonicMs();
  const giveUpAt = startedAt + maxMs;
  let next = 0;
  let added = 0;
  const lane = async () => {
    while (next < count && monotonicMs() < giveUpAt) {
      const first = next;
      const size = Math.min(step, count - first);
      next += size;
      await add(first, size);
      added += size;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return { added, startedAt, finishedAt: monotonicMs() };
}

function makePayloads(first, size) {
  return Array.from({ length: size }, (_, offset) => makePayload(first + offset));
}

serveCalls({
  /** One job a call; `inFlight` calls at a time. */
  addOneByOne({ count, inFlight, maxMs }) {
    const add = (index) => producer.addOne(makePayload(index));
    return addInLanes({ count, lanes: inFlight, step: 1, maxMs, add });
  },

  /** Many jobs a call, in the batches that suit the system best. Jobs that are due later get `dueAt` (epoch ms). */
  addBulk({ count, maxMs, dueAt }) {
    const add = (first, size) => producer.addMany(makePayloads(first, size), dueAt);
    return addInLanes({ count, lanes: system.bulk.inFlight, step: system.bulk.size, maxMs, add });
  },

  /** Single jobs with a random pause between them; each carries the time just before its enqueue call. */
  async addPaced({ count, minGapMs, maxGapMs }) {
    for (let index = 0; index < count; index++) {
      await sleep(minGapMs + Math.random() * (maxGapMs - minGapMs));
      await producer.addOne({ ...makePayload(index), sentAt: monotonicMs() });
    }
  },

  close: () => producer.close(),
});
