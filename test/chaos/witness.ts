/** What really ran, from the notes of the workers and the deaths that the supervisor saw. */
import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Instance, Span } from './units.js';

export type Execution = {
  readonly name: string;
  readonly id: string;
  readonly attempt: number;
  readonly fence: number;
  readonly type: string;
  readonly instance: Instance;
  readonly from: number;
  /** Its own end, or the death of its process, or infinity. */
  to: number;
  /** Undefined: its process died first, or it still runs. */
  end: 'ok' | 'error' | 'abort' | undefined;
};

export type Executions = Map<string, Execution[]>;

/** All executions by job, each list in the order of their starts. */
export async function readWitness(folder: string, instances: readonly Instance[]): Promise<Executions> {
  const byJob: Executions = new Map();
  for (const instance of instances.filter(({ role }) => role === 'worker')) {
    const path = join(folder, `${instance.key}.log`);
    if (!existsSync(path)) continue;
    await readInstance(path, instance, byJob);
  }
  for (const list of byJob.values()) list.sort((one, other) => one.from - other.from);
  return byJob;
}

async function readInstance(path: string, instance: Instance, byJob: Executions): Promise<void> {
  const open = new Map<string, Execution>();
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const [mark, name = '', ...rest] = line.split(' ');
    if (mark === 's') {
      const [id = '', attempt, fence, type = '', at] = rest;
      const execution: Execution = {
        ...{ name, id, attempt: Number(attempt), fence: Number(fence), type, instance, from: Number(at) / 1000 },
        ...{ to: instance.exitedAt ?? Number.POSITIVE_INFINITY, end: undefined },
      };
      open.set(name, execution);
      const list = byJob.get(id);
      if (list) list.push(execution);
      else byJob.set(id, [execution]);
    } else if (mark === 'e') {
      const execution = open.get(name);
      if (!execution) continue;
      execution.end = rest[0] as Execution['end'];
      execution.to = Number(rest[1]) / 1000;
      open.delete(name);
    }
  }
}

export type Overlap = { one: Execution; other: Execution; ms: number; afterPause: boolean };

/**
 * After a pause a process needs a moment to see that its lease is over; nothing can act before that, so this is what
 * a lease cannot promise. It looks 60 times a lease, which here is every 50 ms; the rest is for a busy machine, and
 * the longest is reported. Only a pause that took most of the lease can be to blame: after a shorter one the worker
 * was not given up for it. And only if the one that stood still had begun before, and the other began since: a lease
 * keeps nobody from that, while two that were begun on either side of no pause at all have another cause.
 */
export const THAW_MS = 500;
const BLAMED_SHARE = 0.5;

/** Where two executions of one job really ran at the same time: what stood still did not run. */
export function overlaps(list: readonly Execution[], leaseMs: number): Overlap[] {
  const found: Overlap[] = [];
  for (const [index, one] of list.entries()) {
    for (const other of list.slice(index + 1)) {
      if (other.from >= one.to) continue;
      const common = intersect(activeSpans(one), activeSpans(other));
      const ms = common.reduce((sum, span) => sum + span.to - span.from, 0);
      if (ms <= 0) continue;
      // sorted by their starts: it is the earlier one that may have stood still
      const isThawing = (span: Span) => isJustAfterPause(span, one, other, leaseMs);
      const afterPause = common.every(isThawing);
      found.push({ one, other, ms, afterPause });
    }
  }
  return found;
}

function activeSpans({ from, to, instance }: Execution): Span[] {
  let spans: Span[] = [{ from, to }];
  for (const pause of instance.pauses) {
    spans = spans.flatMap((span) => [
      { from: span.from, to: Math.min(span.to, pause.from) },
      { from: Math.max(span.from, pause.to), to: span.to },
    ]);
    spans = spans.filter((span) => span.to > span.from);
  }
  return spans;
}

function intersect(some: Span[], others: Span[]): Span[] {
  return some
    .flatMap((a) => others.map((b) => ({ from: Math.max(a.from, b.from), to: Math.min(a.to, b.to) })))
    .filter((span) => span.to > span.from);
}

function isJustAfterPause(span: Span, { from, instance }: Execution, later: Execution, leaseMs: number): boolean {
  const blamed = instance.pauses.filter(
    (pause) => pause.to - pause.from >= BLAMED_SHARE * leaseMs && from <= pause.from && later.from >= pause.from,
  );
  return blamed.some((pause) => span.from >= pause.to && span.to <= pause.to + THAW_MS);
}

export function tell(runs: readonly Execution[]): string {
  const [first] = runs;
  if (!first) return 'never ran';
  const text = ({ name, attempt, from, to, end }: Execution) =>
    `${name} a${attempt} ${Math.round(from - first.from)}–${to === Number.POSITIVE_INFINITY ? '…' : Math.round(to - first.from)} ms ${end ?? 'died'}`;
  return runs.slice(0, 6).map(text).join('; ');
}
