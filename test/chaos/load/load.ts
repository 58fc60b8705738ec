/**
 * The load: a process that adds jobs through all servers and through SQL, performs user actions on some of them
 * (cancel, retry, wait for the result, pause a queue), and records the answers in its ledger.
 *
 * Half of its clients repeat a request on the next server, as applications do. The others try once, so that a refusal
 * is final. It talks to its parent process: `count` and `stop` are answered with a `LoadCount`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, createClient } from '@drover/sdk';
import { nowMs } from '../clock.js';
import { createRandom } from '../random.js';
import { createFollowUps } from './follow-ups.js';
import { createLedgerWriter } from './ledger-writer.js';
import { draw, mixAt, optionsOf, type PlannedJob, plainJobs } from './mix.js';
import { createPauser } from './pauser.js';
import { createScheduler } from './scheduler.js';
import { createSqlLoad } from './sql-load.js';

const TICK_MS = 50;
/** Plain jobs in one request, once per second. */
const BURST = 50;
/** Requests of one client that wait for an answer. Above it the client adds nothing. */
const MAX_WAITING = 20;
const REFUSALS = ['overloaded', 'invalid_request', 'shutting_down'];

export type LoadSettings = { urls: string[]; databaseUrl: string; rate: number; seed: number; ledger: string };

/** Its answer to the parent, and its last message. */
export type LoadCount = {
  acknowledged: number;
  refused: number;
  unknown: number;
  /** Jobs that were not sent, because too many requests waited for answers. */
  unsent: number;
};

type Sender = { client: Client; retries: number; waiting: number };

async function startLoad({ urls, databaseUrl, rate, seed, ledger: path }: LoadSettings): Promise<void> {
  const random = createRandom(seed).fork('load');
  const ledger = createLedgerWriter(path);
  const mix = mixAt(rate);
  const count: LoadCount = { acknowledged: 0, refused: 0, unknown: 0, unsent: 0 };
  const senders = urls.flatMap((_, index): Sender[] => {
    const rotated = [...urls.slice(index), ...urls.slice(0, index)];
    return [0, 3].map((retries) => ({
      client: createClient({ url: rotated, timeout: '6s', retries }),
      retries,
      waiting: 0,
    }));
  });
  const patient = createClient({ url: urls, timeout: '60s', retries: 100 });
  const followUps = createFollowUps(patient, ledger, random.fork('follow-ups'));
  const scheduler = createScheduler(patient, ledger);
  const underWay = new Set<Promise<unknown>>();
  let turn = 0;

  function track(work: Promise<unknown>): void {
    underWay.add(work);
    void work.finally(() => underWay.delete(work));
  }

  async function add(sender: Sender, jobs: PlannedJob[]): Promise<void> {
    sender.waiting += 1;
    const [sentAt, sentWallMs] = [nowMs(), Date.now()];
    try {
      await sender.client.enqueueMany(
        jobs.map((job) => ({ job: job.type, payload: job.payload, options: optionsOf(job, sentWallMs) })),
      );
      count.acknowledged += jobs.length;
      ledger.added(jobs, 'acknowledged', 'sdk', sentAt);
      for (const job of jobs) track(followUps.follow(job));
    } catch (error) {
      const isRefusal = sender.retries === 0 && REFUSALS.includes((error as { code?: string }).code ?? '');
      count[isRefusal ? 'refused' : 'unknown'] += jobs.length;
      ledger.added(jobs, isRefusal ? 'refused' : 'unknown', 'sdk', sentAt);
    } finally {
      sender.waiting -= 1;
    }
  }

  /** Uses the next client, unless too many requests wait there. */
  function send(jobs: PlannedJob[]): void {
    turn += 1;
    const sender = senders[turn % senders.length];
    if (!sender || sender.waiting >= MAX_WAITING) count.unsent += jobs.length;
    else track(add(sender, jobs));
  }

  await scheduler.start();
  const sql = createSqlLoad(databaseUrl, ledger, random.fork('sql'), (acknowledged) => {
    count.acknowledged += acknowledged;
  });
  const pauser = createPauser(patient, ledger);
  const started = performance.now();
  let added = 0;
  let bursts = 0;
  const timer = setInterval(() => {
    const elapsed = performance.now() - started;
    if (elapsed > bursts * 1000) {
      bursts += 1;
      added += BURST;
      send(plainJobs(BURST));
    }
    let due = Math.floor((elapsed * rate) / 1000) - added;
    const size = Math.max(1, Math.ceil(due / senders.length));
    for (; due > 0; due -= size) {
      const jobs = Array.from({ length: Math.min(size, due) }, () => draw(random, mix));
      added += jobs.length;
      send(jobs);
    }
  }, TICK_MS);

  async function stop(): Promise<void> {
    clearInterval(timer);
    await Promise.all([sql.stop(), pauser.stop()]);
    // tracked work may track more work
    while (underWay.size > 0) await Promise.all(underWay);
    await scheduler.stop();
    await delay(0);
    await Promise.all([...senders.map(({ client }) => client.close()), patient.close()]);
  }

  process.on('message', (message) => {
    if (message === 'count') process.send?.(count);
    if (message === 'stop') void stop().then(() => process.send?.(count, () => process.exit(0)));
  });
  process.on('disconnect', () => process.exit(1));
  process.send?.('started');
}

await startLoad(JSON.parse(process.env.CHAOS_LOAD ?? '{}') as LoadSettings);
