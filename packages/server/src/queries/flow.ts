/** Totals of a time range, from the per-minute rollups. */
import type { Flow } from '@drover/protocol';

const COLUMNS = ['succeeded', 'failed', 'cancelled', 'retried', 'wait_ms', 'run_ms'] as const;

/** The sums of the rollup `r`, for a select list; 0 where there is none. */
export const FLOW_SUMS = COLUMNS.map((column) => `coalesce(sum(r.${column}), 0)::double precision as ${column}`).join(
  ', ',
);

export type FlowSums = Record<(typeof COLUMNS)[number], number>;

export const NO_FLOW: FlowSums = { succeeded: 0, failed: 0, cancelled: 0, retried: 0, wait_ms: 0, run_ms: 0 };

export function addFlows(a: FlowSums, b: FlowSums): FlowSums {
  return Object.fromEntries(COLUMNS.map((column) => [column, a[column] + b[column]])) as FlowSums;
}

/** Jobs that ended, in any state. */
export function finishedIn(sums: FlowSums): number {
  return sums.succeeded + sums.failed + sums.cancelled;
}

/**
 * The waiting time is recorded when a job ends, the running time with every attempt. Jobs that were cancelled before
 * they started have neither and do not count.
 */
export function toFlow(sums: FlowSums): Flow {
  const { succeeded, failed, cancelled, retried } = sums;
  const ended = succeeded + failed;
  const attempts = ended + retried;
  return {
    succeeded,
    failed,
    cancelled,
    retried,
    waitMs: ended > 0 ? sums.wait_ms / ended : null,
    runMs: attempts > 0 ? sums.run_ms / attempts : null,
  };
}
