/** Which jobs the load adds, and how often. Each kind is there for a rule. */
import { newId } from '@drover/protocol';
import type { EnqueueOptions } from '@drover/sdk';
import { nowMs } from '../clock.js';
import type { Random } from '../random.js';

/** A new job as the load describes it, for the request and for the ledger alike. */
export type PlannedJob = {
  id: string;
  type: string;
  payload: Record<string, unknown>;
  queue?: string;
  priority?: number;
  maxAttempts?: number;
  holds?: boolean;
  delayMs?: number;
  expiresMs?: number;
  timeoutMs?: number;
};

type Share = [share: number, make: (random: Random) => Omit<PlannedJob, 'id'>];

export const PAUSED_QUEUE = 'sometimes-paused';
const RETRY_MS = 200;

/**
 * Per second, at any rate: only a handler that runs longer than a lease can be seen to run after its lease is over,
 * so some of them must run on every worker at any time.
 */
const LONG_PER_SECOND = 2;
const STUBBORN_PER_SECOND = 1;
const ISOLATED_PER_SECOND = 1;
const longerThanLease = (random: Random) => ({ ms: random.whole(3000, 12_000) });

export function mixAt(rate: number): Share[] {
  return [
    [LONG_PER_SECOND / rate, (random) => ({ type: 'long', payload: longerThanLease(random) })],
    [STUBBORN_PER_SECOND / rate, (random) => ({ type: 'stubborn', payload: longerThanLease(random) })],
    [ISOLATED_PER_SECOND / rate, (random) => ({ type: 'isolated', payload: { ms: random.whole(200, 5000) } })],
    [0.1, (random) => ({ type: 'sleep', payload: { ms: random.whole(50, 500) }, priority: random.whole(-5, 5) })],
    [0.03, (random) => ({ type: 'hold', payload: { ms: random.whole(50, 500) }, holds: true })],
    [0.03, (random) => ({ type: 'flaky', payload: { times: random.whole(1, 2) } })],
    [0.01, () => ({ type: 'broken', payload: {} })],
    [0.001, (random) => ({ type: 'block', payload: { ms: random.whole(600, 1500) } })],
    [0.02, () => ({ type: 'parent', payload: { children: 2 } })],
    [0.005, () => ({ type: 'broken-parent', payload: { children: 2 } })],
    [0.02, (random) => ({ type: 'delayed', payload: {}, delayMs: random.whole(200, 5000) })],
    [0.01, (random) => ({ type: 'snoozing', payload: { untilMs: nowMs() + random.whole(0, 2000) } })],
    [0.01, (random) => ({ type: 'cancelled', payload: { ms: 1500 }, delayMs: random.pick([1, 1000, 3000]) })],
    [
      0.01,
      (random) => ({ type: 'expiring', payload: { ms: random.whole(50, 500) }, expiresMs: random.whole(500, 4000) }),
    ],
    [0.005, () => ({ type: 'expiring', payload: { ms: 50 }, expiresMs: 500, delayMs: 2500 })],
    [0.005, () => ({ type: 'overtime', payload: { ms: 20_000 }, timeoutMs: 300, maxAttempts: 2 })],
    [0.02, () => ({ type: 'noop', payload: {}, queue: PAUSED_QUEUE })],
    [0.02, (random) => ({ type: 'noop', payload: oddPayload(random) })],
  ];
}

/** Values that JSON allows and a careless layer would change. */
function oddPayload(random: Random): Record<string, unknown> {
  return random.pick<Record<string, unknown>>([
    { text: 'ünïcödé – 漢字 – 🐎 – \u2028 – "quotes" \\ / \b\f\n\r\t \u0001' },
    { numbers: [0.1, 1e21, -1.5e-7, 9_007_199_254_740_991, -2_147_483_648] },
    { order: { z: 1, a: 2, '10': 3, '9': 4 }, empty: {}, none: [], nothing: null },
    { deep: Array.from({ length: 50 }).reduce<unknown>((inner) => [inner], 'core') },
    JSON.parse('{"__proto__":{"polluted":true},"constructor":"x","toString":"y"}'),
    { large: 'x'.repeat(random.whole(1000, 50_000)) },
  ]);
}

export function draw(random: Random, mix: Share[]): PlannedJob {
  let roll = random.next();
  for (const [share, make] of mix) {
    roll -= share;
    if (roll < 0) return { id: newId(), maxAttempts: 5, ...make(random) };
  }
  return { id: newId(), maxAttempts: 5, type: 'noop', payload: {} };
}

/** Plain jobs in one request: they are inserted in another way than those with options. */
export function plainJobs(count: number): PlannedJob[] {
  return Array.from({ length: count }, () => ({ id: newId(), type: 'noop', payload: {} }));
}

/**
 * In the form of the SDK and the SQL function. `sentWallMs` is the time of the request, from which the expiry counts.
 */
export function optionsOf(job: PlannedJob, sentWallMs: number): EnqueueOptions {
  const { id, queue, priority, maxAttempts, holds, delayMs, expiresMs, timeoutMs } = job;
  const isPlain = maxAttempts === undefined;
  return {
    ...{ id, queue, priority, maxAttempts, delay: delayMs, timeout: timeoutMs },
    onLost: holds ? 'hold' : undefined,
    backoff: isPlain ? undefined : { kind: 'fixed', delay: RETRY_MS },
    expiresAt: expiresMs === undefined ? undefined : new Date(sentWallMs + expiresMs),
  };
}
