/**
 * What the load did, one JSON line for each request, written to its own disk when the answer has come: jobs it added, and
 * what it did to them afterwards.
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

/** `acknowledged`: it must exist. `refused`: it must not. `unknown`: either is right. */
export type Mark = 'acknowledged' | 'refused' | 'unknown';

export type AddedJob = {
  kind: 'job';
  id: string;
  mark: Mark;
  type: string;
  via: 'sdk' | 'sql' | 'plant';
  /** MD5 of the payload's JSON text, as it was sent. */
  payloadHash: string;
  /** When the request was sent, and when its answer had come. */
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

/** Anything but an add. `answer` is what the client got: a state, a value, or the code of an error. */
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
  /** The actions on one job, queue or schedule, in their order. */
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
