/**
 * What really ran: the lines that handlers write before anything else, and the ends of processes that the supervisor
 * saw.
 *
 *   s <execution> <job> <attempt> <fence> <type> <payload hash> <occurrence or -> <microseconds>
 *   c <execution> <id of a child that the handler enqueued> …
 *   t <execution> <microseconds>                    an isolated handler is still alive
 *   e <execution> <ok | error | snooze | abort:CODE> <microseconds>
 */
import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Instance } from '../system/units.js';

/** The type of jobs that run in their own processes, see programs/isolated.mjs. */
const ISOLATED = 'isolated';

/** How a handler ended. `abort:…` names why its signal was aborted: `shutdown`, `lost`, `cancelled`, `timeout`, `expired`. */
export type ExecutionEnd = 'ok' | 'error' | 'snooze' | `abort:${string}`;

export type Execution = {
  readonly name: string;
  readonly id: string;
  readonly attempt: number;
  readonly fence: number;
  readonly type: string;
  readonly payloadHash: string;
  /** `schedule@nominal time` of a job that a schedule created. */
  readonly occurrence: string | undefined;
  readonly instance: Instance;
  readonly from: number;
  /**
   * Its own end, or the end of its process, or infinity. An isolated handler has its own process, which may end
   * before or after the worker's: without an end of its own, its last sign of life counts.
   */
  to: number;
  /** Undefined: its process died first, or it still runs. */
  end: ExecutionEnd | undefined;
  readonly children: string[];
};

export type Executions = ReadonlyMap<string, Execution[]>;

/** All executions by job, each list in the order of starts. */
export async function readWitness(folder: string, instances: readonly Instance[]): Promise<Executions> {
  const byJob = new Map<string, Execution[]>();
  for (const instance of instances.filter(({ role }) => role === 'worker')) {
    const path = join(folder, `${instance.key}.log`);
    if (!existsSync(path)) continue;
    await readInstance(path, instance, byJob);
  }
  for (const list of byJob.values()) list.sort((one, other) => one.from - other.from);
  return byJob;
}

async function readInstance(path: string, instance: Instance, byJob: Map<string, Execution[]>): Promise<void> {
  const open = new Map<string, Execution>();
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const [mark, name = '', ...rest] = line.split(' ');
    if (mark === 's') {
      const execution = startOf(name, rest, instance);
      open.set(name, execution);
      const list = byJob.get(execution.id);
      if (list) list.push(execution);
      else byJob.set(execution.id, [execution]);
      continue;
    }
    const execution = open.get(name);
    if (!execution) continue;
    if (mark === 'c') execution.children.push(...rest);
    if (mark === 't') execution.to = Number(rest[0]) / 1000;
    if (mark === 'e') {
      execution.end = rest[0] as ExecutionEnd;
      execution.to = Number(rest[1]) / 1000;
      open.delete(name);
    }
  }
}

function startOf(name: string, words: string[], instance: Instance): Execution {
  const [id = '', attempt, fence, type = '', payloadHash = '', occurrence = '-', at] = words;
  return {
    ...{ name, id, attempt: Number(attempt), fence: Number(fence), type, payloadHash, instance, children: [] },
    occurrence: occurrence === '-' ? undefined : occurrence,
    from: Number(at) / 1000,
    to: type === ISOLATED ? Number(at) / 1000 : (instance.exitedAt ?? Number.POSITIVE_INFINITY),
    end: undefined,
  };
}

export function describeRuns(runs: readonly Execution[]): string {
  const [first] = runs;
  if (!first) return 'never ran';
  const describeRun = ({ instance, attempt, fence, from, to, end }: Execution) => {
    const span = `${(from - first.from).toFixed(0)}–${Number.isFinite(to) ? (to - first.from).toFixed(0) : '…'} ms`;
    return `${instance.key} attempt ${attempt} fence ${fence} ${span} ${end ?? 'no end'}`;
  };
  return runs.map(describeRun).join('; ');
}
