/** Creates schedules before the faults, and pauses them after all faults: both times are then certain. */
import type { Client } from '@drover/sdk';
import type { LedgerWriter } from './ledger-writer.js';

const INTERVALS_MS = [1000, 2000, 5000];

export function createScheduler(
  client: Client,
  ledger: LedgerWriter,
): { start(): Promise<void>; stop(): Promise<void> } {
  const nameOf = (everyMs: number) => `every-${everyMs}`;
  /** The answer contains the wall clock times of the request and of its answer, and the interval. */
  const timed = async (everyMs: number, work: () => Promise<unknown>): Promise<string> => {
    const sent = Date.now();
    await work();
    return `${sent} ${Date.now()} ${everyMs}`;
  };
  return {
    async start() {
      for (const everyMs of INTERVALS_MS) {
        const schedule = { every: everyMs, catchUp: 'all' as const, job: { type: 'tick', payload: {} } };
        const name = nameOf(everyMs);
        await ledger.act('schedule', name, () => timed(everyMs, () => client.schedules.put(name, schedule)));
      }
    },
    async stop() {
      for (const everyMs of INTERVALS_MS) {
        const name = nameOf(everyMs);
        await ledger.act('end-schedule', name, () => timed(everyMs, () => client.schedules.pause(name)));
      }
    },
  };
}
