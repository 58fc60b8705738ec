/**
 * Jobs that are planted for a fault: added like any other, but the worker that the fault hits must be known first.
 * The handler reports its start through the channel to its supervisor.
 */
import { type EventEmitter, once } from 'node:events';
import { LIMITS, newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { nowMs } from '../clock.js';
import { createLedgerWriter } from '../load/ledger-writer.js';
import { optionsOf, type PlannedJob } from '../load/mix.js';
import type { PlantedType } from './fault.js';

/** Limit for a job that is next in its lane. */
const BEGUN_WITHIN_MS = 10_000;
/** In leases. Until its worker is back after the cut, also as another process, which first retries patiently. */
const RUNS_FOR = 5;
/** Long enough to be cut off in, and over before the worker starts to doubt its lease. */
const ENDS_AFTER = 0.5;

export type Planter = {
  /** Adds a job of each type. Returns the names of the workers on which they have started. */
  plant(types: readonly PlantedType[]): Promise<string[]>;
  close(): Promise<void>;
};

/** `begun` emits the ids of planted jobs with the name of their worker. */
export function createPlanter(urls: string[], ledgerPath: string, begun: EventEmitter, leaseMs: number): Planter {
  const client = createClient({ url: urls });
  const ledger = createLedgerWriter(ledgerPath);
  const payloads: Record<PlantedType, Record<string, unknown>> = {
    stubborn: { planted: true, ms: RUNS_FOR * leaseMs },
    outrun: { planted: true, ms: RUNS_FOR * leaseMs, firstMs: ENDS_AFTER * leaseMs },
    hold: { planted: true, ms: ENDS_AFTER * leaseMs },
  };

  async function plantOne(type: PlantedType): Promise<string> {
    const job: PlannedJob = {
      ...{ id: newId(), type, payload: payloads[type], priority: LIMITS.priority, maxAttempts: 5 },
      ...(type === 'hold' ? { holds: true } : {}),
    };
    const begins = once(begun, job.id, { signal: AbortSignal.timeout(BEGUN_WITHIN_MS) });
    const sentAt = nowMs();
    const added = client
      .enqueue(type, job.payload, optionsOf(job, Date.now()))
      .then(() => ledger.added([job], 'acknowledged', 'plant', sentAt));
    const [[name]] = await Promise.all([begins, added]);
    return name as string;
  }

  return {
    plant: (types) => Promise.all(types.map(plantOne)),
    close: () => client.close(),
  };
}
