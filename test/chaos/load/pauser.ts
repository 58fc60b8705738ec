/** Pauses and resumes a queue repeatedly. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@drover/sdk';
import type { LedgerWriter } from './ledger-writer.js';
import { PAUSED_QUEUE } from './mix.js';

const EVERY_MS = 8000;
const PAUSED_MS = 4000;

export function createPauser(client: Client, ledger: LedgerWriter): { stop(): Promise<void> } {
  const stopped = new AbortController();

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      await pauseFor(EVERY_MS - PAUSED_MS, stopped.signal);
      await ledger.act('pause', PAUSED_QUEUE, async () => {
        await client.pause({ queue: PAUSED_QUEUE });
        return 'paused';
      });
      await pauseFor(PAUSED_MS, stopped.signal);
      await ledger.act('resume', PAUSED_QUEUE, async () => {
        await client.resume({ queue: PAUSED_QUEUE });
        return 'resumed';
      });
    }
  }

  const running = run();
  return {
    stop() {
      stopped.abort();
      return running;
    },
  };
}

async function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  // an abort ends the wait; the resume must still happen, or the queue would stay paused
  await delay(ms, undefined, { signal }).catch(() => {});
}
