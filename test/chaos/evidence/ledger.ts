/**
 * What the load did, one JSON line per request, written to its own disk when the answer has arrived: jobs that it
 * added, and later actions on them.
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

/** `acknowledged`: it must exist. `refused`: it must not. `unknown`: both are correct. */
export type Mark = 'acknowledged' | 'refused' | 'unknown';

export type AddedJob = {
  kind: 'job';
  id: string;
  mark: Mark;
  type: string;
  via: 'sdk' | 'sql' | 'plant';
  /** MD5 of the payload's JSON, as it was sent. */
  payloadHash: string;
  /** When the request was sent, and when its answer arrived. */
  sentAt: number;
  answeredAt: number;
  queue?: string;
  priority?: number;
  maxAttempts?: number;
  holds?: boolean;
  delayMs?: number;
  /** From `sentAt` on. */
  expiresMs?: number;
  timeoutMs?: number;
};

/** Any request except an add. `answer` is what the client got: a state, a value, or the code of an error. */
export type Action = {
  kind: 'cancel' | 'retry' | 'result' | 'pause' | 'resume' | 'schedule' | 'end-schedule';
  /** Job, queue or schedule. */
  target: string;
  sentAt: number;
  answeredAt: number;
  ok: boolean;
  answer: string;
};

export type Ledger = {
  readonly jobs: ReadonlyMap<string, AddedJob>;
  readonly actions: readonly Action[];
  /** The actions on one job, queue or schedule, in order. */
  actionsOn(target: string): readonly Action[];
};

export async function readLedger(path: string): Promise<Ledger> {
  const entries: (AddedJob | Action)[] = [];
  for await (const line of createInterface({ input: createReadStream(path) })) {
    entries.push(JSON.parse(line) as AddedJob | Action);
  }
  return ledgerOf(entries);
}

export function ledgerOf(entries: readonly (AddedJob | Action)[]): Ledger {
  const jobs = new Map<string, AddedJob>();
  const actions: Action[] = [];
  const byTarget = new Map<string, Action[]>();
  for (const entry of entries) {
    if (entry.kind === 'job') {
      jobs.set(entry.id, entry);
      continue;
    }
    actions.push(entry);
    const list = byTarget.get(entry.target);
    if (list) list.push(entry);
    else byTarget.set(entry.target, [entry]);
  }
  return { jobs, actions, actionsOn: (target) => byTarget.get(target) ?? [] };
}
