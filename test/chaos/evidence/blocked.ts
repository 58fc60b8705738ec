/** The load has handlers that block the event loop of their worker. Everything else in that process waits for them. */
import type { Instance } from '../system/units.js';
import type { Execution, Executions } from './witness.js';

/** The executions among `runs` that block their process. There are few of them. */
export function blockingOf(runs: readonly Execution[]): Execution[] {
  return runs.filter(({ type }) => type === 'block');
}

/** How long these executions, which are of one process, blocked it in the given time. */
export function blockedMs({ from, to }: { from: number; to: number }, blocking: readonly Execution[]): number {
  return blocking.reduce((sum, run) => sum + Math.max(0, Math.min(run.to, to) - Math.max(run.from, from)), 0);
}

export function runsByInstance({ executions }: { executions: Executions }): Map<Instance, Execution[]> {
  const byInstance = new Map<Instance, Execution[]>();
  for (const run of [...executions.values()].flat()) {
    const list = byInstance.get(run.instance);
    if (list) list.push(run);
    else byInstance.set(run.instance, [run]);
  }
  return byInstance;
}
