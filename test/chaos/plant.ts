/**
 * Jobs that are planted for a fault: added like any other, but whoever is to be cut off with one must be found first. The
 * handler itself says, through the channel to its supervisor, that it has begun.
 */
import { type EventEmitter, once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { LIMITS, newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';

/** For a job that is the next in line. */
const BEGUN_WITHIN_MS = 10_000;
/** In leases. Until its worker comes back from the cut, also if that is another process, which first tries patiently. */
const RUNS_FOR = 5;
/** Long enough to be cut off in, and over before the worker begins to doubt its lease. */
const OUTRUN_AFTER = 0.5;

/** What the handlers do is in programs/worker.mjs. */
const PLANTED_TYPES = ['stubborn', 'outrun'];

export type Planter = {
  /** Adds a job of each type; gives the names of the workers on which they have begun. */
  plant(): Promise<string[]>;
  close(): Promise<void>;
};

/** `begun` emits the ids of planted jobs with the name of the worker. */
export function createPlanter(urls: string[], ledger: string, begun: EventEmitter, leaseMs: number): Planter {
  const client = createClient({ url: urls });
  const payload = { planted: true, ms: RUNS_FOR * leaseMs, firstMs: OUTRUN_AFTER * leaseMs };

  async function plantOne(type: string): Promise<string> {
    const id = newId();
    const begins = once(begun, id, { signal: AbortSignal.timeout(BEGUN_WITHIN_MS) });
    const added = client.enqueue(type, payload, { id, priority: LIMITS.priority, maxAttempts: 5 });
    const noted = added.then(() => appendFileSync(ledger, `A ${id} ${type}\n`));
    const [[name]] = await Promise.all([begins, noted]);
    return name as string;
  }

  return {
    plant: () => Promise.all(PLANTED_TYPES.map(plantOne)),
    close: () => client.close(),
  };
}
