/**
 * The load: a process that adds jobs through all servers and notes on its own disk what became of each request.
 *
 *   A <id> <type>   acknowledged: it must exist
 *   F <id> <type>   refused: it must not exist
 *   U <id> <type>   nobody knows: either is right
 *
 * Half of its clients repeat a request on the next server, as applications do; the others try once, so that a
 * refusal is a refusal.
 */
import { openSync, writeSync } from 'node:fs';
import { newId } from '@drover/protocol';
import { type Client, createClient, defineJob, type JobToAdd } from '@drover/sdk';
import { createRandom, type Random } from './random.js';

const TICK_MS = 50;
/** Requests of one client that wait for an answer; past it the client adds nothing. */
const MAX_WAITING = 20;
const REFUSALS = ['overloaded', 'invalid_request', 'shutting_down'];

export type LoadSettings = { urls: string[]; rate: number; seed: number; ledger: string };
/** What it says when asked and at its end. */
export type LoadCount = {
  acknowledged: number;
  refused: number;
  unknown: number;
  left: number;
  errors: Record<string, number>;
};

type NewJob = JobToAdd & { options: { id: string } };

const hold = defineJob({ type: 'hold', onLost: 'hold' });

/**
 * A second, whatever the rate: only a handler that runs for longer than a lease can be seen to run on when its
 * lease is over, so some of them must run on every worker at any time.
 */
const LONG_PER_SECOND = 2;
const STUBBORN_PER_SECOND = 1;
const longerThanLease = (random: Random) => ({ ms: random.whole(3000, 12_000) });

type Share = [share: number, make: (random: Random) => Omit<NewJob, 'options'>];

function mixAt(rate: number): Share[] {
  return [
    [LONG_PER_SECOND / rate, (random) => ({ job: 'long', payload: longerThanLease(random) })],
    [STUBBORN_PER_SECOND / rate, (random) => ({ job: 'stubborn', payload: longerThanLease(random) })],
    [0.1, (random) => ({ job: 'sleep', payload: { ms: random.whole(50, 500) } })],
    [0.03, (random) => ({ job: hold, payload: { ms: random.whole(50, 500) } })],
    [0.03, (random) => ({ job: 'flaky', payload: { times: random.whole(1, 2) } })],
    [0.01, () => ({ job: 'broken', payload: {} })],
    [0.001, (random) => ({ job: 'block', payload: { ms: random.whole(600, 1500) } })],
    [0.02, () => ({ job: 'parent', payload: { children: 2 } })],
  ];
}

/** Many plain jobs in one request, once a second: they are added in another way than those with options. */
const BURST = 50;
const burst = () =>
  Array.from({ length: BURST }, (): NewJob => ({ job: 'noop', payload: {}, options: { id: newId() } }));

function draw(random: Random, mix: Share[]): NewJob {
  let roll = random.next();
  const options = { id: newId(), maxAttempts: 5, backoff: { kind: 'fixed' as const, delay: '200ms' } };
  for (const [share, make] of mix) {
    roll -= share;
    if (roll < 0) return { ...make(random), options };
  }
  return { job: 'noop', payload: {}, options };
}

function startLoad({ urls, rate, seed, ledger }: LoadSettings) {
  const file = openSync(ledger, 'a');
  const random = createRandom(seed).fork('load');
  const mix = mixAt(rate);
  const count: LoadCount = { acknowledged: 0, refused: 0, unknown: 0, left: 0, errors: {} };
  const clients = urls.flatMap((_, index) => {
    const rotated = [...urls.slice(index), ...urls.slice(0, index)];
    return [0, 3].map((retries) => ({
      client: createClient({ url: rotated, timeout: '6s', retries }),
      retries,
      waiting: 0,
    }));
  });
  let turn = 0;
  let due = 0;

  async function add(sender: { client: Client; retries: number; waiting: number }, jobs: NewJob[]): Promise<void> {
    sender.waiting += 1;
    let mark = 'A';
    try {
      await sender.client.enqueueMany(jobs);
      count.acknowledged += jobs.length;
    } catch (error) {
      const code = (error as { code?: string }).code ?? 'none';
      count.errors[code] = (count.errors[code] ?? 0) + 1;
      mark = sender.retries === 0 && REFUSALS.includes(code) ? 'F' : 'U';
      if (mark === 'F') count.refused += jobs.length;
      else count.unknown += jobs.length;
    } finally {
      sender.waiting -= 1;
    }
    const typeOf = (job: NewJob['job']) => (typeof job === 'string' ? job : job.type);
    writeSync(file, jobs.map(({ job, options }) => `${mark} ${options.id} ${typeOf(job)}\n`).join(''));
  }

  const underWay = new Set<Promise<void>>();
  const started = performance.now();
  let added = 0;
  let bursts = 0;

  /** Through the next client, unless too much waits there. */
  function send(jobs: NewJob[]): void {
    added += jobs.length;
    turn += 1;
    const sender = clients[turn % clients.length];
    if (!sender || sender.waiting >= MAX_WAITING) {
      count.left += jobs.length;
      return;
    }
    const request = add(sender, jobs);
    underWay.add(request);
    request.finally(() => underWay.delete(request));
  }

  const timer = setInterval(() => {
    if (performance.now() - started > bursts * 1000) {
      bursts += 1;
      send(burst());
    }
    due = Math.floor(((performance.now() - started) * rate) / 1000) - added;
    const size = Math.max(1, Math.ceil(due / clients.length));
    for (; due > 0; due -= size) send(Array.from({ length: Math.min(size, due) }, () => draw(random, mix)));
  }, TICK_MS);

  process.on('message', async (message) => {
    if (message !== 'stop') {
      process.send?.(count);
      return;
    }
    clearInterval(timer);
    await Promise.all(underWay);
    await Promise.all(clients.map(({ client }) => client.close()));
    process.send?.(count, () => process.exit(0));
  });
  process.on('disconnect', () => process.exit(1));
}

startLoad(JSON.parse(process.env.CHAOS_LOAD ?? '{}') as LoadSettings);
