/** Adds sample jobs at the pace of a person watching, and none while a lot of them wait. */
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
  /** Whether enough is waiting already. */
  isFull: () => boolean;
  random?: () => number;
};

/** Goes on until the signal is given. */
export async function runSampleLoad(options: SampleLoadOptions): Promise<void> {
  const { client, logger, signal, isFull, random = Math.random } = options;
  for (let round = 0; !signal.aborted; round++) {
    try {
      if (!isFull()) await addSample(client, round, random);
    } catch (error) {
      if (!signal.aborted) logger.warn({ err: error }, 'a sample job could not be added');
    }
    // Ends early with an error when the signal comes, which the loop's condition then sees.
    await delay(PACE_MS, undefined, { signal }).catch(() => {});
  }
}

async function addSample(client: Client, round: number, random: () => number): Promise<void> {
  const name = NAMES[Math.floor(random() * NAMES.length)] ?? 'Ada';
  await client.enqueue(hello, { name });
  if (round % 2 === 1) await client.enqueue(sleep, { ms: Math.round(random() * MAX_SLEEP_MS) });
  if (round % 5 === 4) await client.enqueue(flaky, { failures: 1 });
}
