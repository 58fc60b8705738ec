/** The worker process: runs no-ops for one system, counts them, and notes start times when it is asked to. */
import { serveCalls } from '../lib/calls.mjs';
import { monotonicMs } from '../lib/clock.mjs';
import { loadSystem } from '../systems/index.mjs';

const context = JSON.parse(process.argv[2]);
const system = await loadSystem(context.system);

let worker;
let idle;
let handled = 0;
let firstAt;
let onHandled; // what to do for each job besides counting it: only the latency workloads set it
let awaited; // { count, resolve }: who waits for how many
const noted = [];

function handle(payload) {
  handled++;
  if (firstAt === undefined) firstAt = monotonicMs();
  if (onHandled !== undefined) onHandled(payload);
  if (awaited !== undefined && handled >= awaited.count) {
    awaited.resolve(monotonicMs());
    awaited = undefined;
  }
}

const NOTES = {
  /** Milliseconds from just before the enqueue call to here. */
  latency: (payload) => noted.push(monotonicMs() - payload.sentAt),
  /** The wall clock here; the workload knows when the job was due. */
  startTime: () => noted.push(Date.now()),
};

serveCalls({
  async start({ note } = {}) {
    handled = 0;
    firstAt = undefined;
    noted.length = 0;
    onHandled = note === undefined ? undefined : NOTES[note];
    const startedAt = monotonicMs();
    worker = await system.openWorker(context, handle);
    return { startedAt, readyAt: monotonicMs() };
  },

  /** Answers when `count` jobs have been started, or when the time is up. */
  async waitFor({ count, maxMs }) {
    let timer;
    const reachedAt =
      handled >= count
        ? monotonicMs()
        : await new Promise((resolve) => {
            awaited = { count, resolve };
            timer = setTimeout(resolve, maxMs);
          });
    awaited = undefined;
    clearTimeout(timer);
    return { reached: reachedAt !== undefined, at: reachedAt ?? monotonicMs(), firstAt, handled };
  },

  /** Workers that are connected and get no job; only some systems have them. */
  async startIdle({ count }) {
    idle = await system.openIdleWorkers(context, count);
  },

  countIdle: () => ({ connected: idle.connected() }),

  counts: () => ({ handled, noted }),

  async stop() {
    await worker?.stop();
    worker = undefined;
  },

  async close() {
    idle?.stop();
    await worker?.stop();
  },
});
