/** Adds sample jobs slowly enough to watch, and none while many of them wait. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@drover/sdk';
import type { Logger } from 'pino';
import { flaky, hello, sleep } from '../sample/jobs.js';

const PACE_MS = 700;
const MAX_SLEEP_MS = 3000;
const NAMES = ['Ada', 'Alan', 'Barbara', 'Edsger', 'Grace', 'Katherine', 'Leslie', 'Margaret'];

export type SampleLoadOptions = {
  client: Client;
  logger: Logger;
  signal: AbortSignal;
  /** Whether enough jobs are waiting. */
  isFull: () => boolean;
  random?: () => number;
};

/** Runs until the signal aborts. */
export async function runSampleLoad(options: SampleLoadOptions): Promise<void> {
  const { client, logger, signal, isFull, random = Math.random } = options;
  for (let round = 0; !signal.aborted; round++) {
    try {
      if (!isFull()) await addSample(client, round, random);
    } catch (error) {
      if (!signal.aborted) logger.warn({ event: 'sample.failed', err: error }, 'a sample job could not be added');
    }
    // Rejects when the signal aborts, which the loop's condition then detects.
    await delay(PACE_MS, undefined, { signal }).catch(() => {});
  }
}

async function addSample(client: Client, round: number, random: () => number): Promise<void> {
  const name = NAMES[Math.floor(random() * NAMES.length)] ?? 'Ada';
  await client.enqueue(hello, { name });
  if (round % 2 === 1) await client.enqueue(sleep, { ms: Math.round(random() * MAX_SLEEP_MS) });
  if (round % 5 === 4) await client.enqueue(flaky, { failures: 1 });
}
