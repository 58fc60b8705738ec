/**
 * All evidence that a rule may use, read once when the run is over.
 *
 * Three kinds of sources, in the order of trust: what was seen outside the system (the witness of the handlers, the
 * supervisor of the processes, the ledger of the load, copies of the journals), what the nemesis did, and what the
 * database says. The database is what is tested: a rule compares it, and never excuses one of its rows by another.
 */
import type { FaultResult } from '../faults/fault.js';
import type { Assault } from '../hostile/hostile.js';
import type { Instance, Trouble, Unit } from '../system/units.js';
import type { Grant, Grants } from './audit.js';
import type { JobRecord } from './jobs.js';
import type { Journals } from './journals.js';
import type { Action, AddedJob, Ledger } from './ledger.js';
import type { ScheduleRecord } from './schedules.js';
import type { Execution, Executions } from './witness.js';

export type { Action, AddedJob, Execution, Grant, Instance, JobRecord, Ledger, ScheduleRecord, Trouble, Unit };

/** A session that a server declared dead, seen in the database soon after. */
export type Verdict = {
  /** Name and process id of the worker. */
  unit: string;
  pid: number;
  sessionId: string;
  /** Address of the server that had served it last. */
  server: string;
  /** The next process of the same data folder reported that this one is gone; no lease had to expire. */
  isTakeover: boolean;
  seenAt: number;
};

/** What the reconciler of a server reports as repaired. */
export type Repair = { kind: string; count: number; address: string | null; seenAt: number };

/** One check after the faults: whether everything that should be alive is, and works. */
export type RecoveryCheck = { what: string; ok: boolean };

export type Evidence = {
  /** Every row. A job that exists twice is here twice. */
  jobs: readonly JobRecord[];
  jobById: ReadonlyMap<string, JobRecord>;
  executions: Executions;
  executionByName: ReadonlyMap<string, Execution>;
  ledger: Ledger;
  grants: Grants;
  /** How often each job entered the history, and how. */
  endings: ReadonlyMap<string, readonly string[]>;
  journals: Journals;
  verdicts: readonly Verdict[];
  repairs: readonly Repair[];
  schedules: readonly ScheduleRecord[];
  instances: readonly Instance[];
  /** By `processKey`. */
  instanceByProcess: ReadonlyMap<string, Instance>;
  units: readonly Unit[];
  databaseTroubles: readonly Trouble[];
  faults: readonly FaultResult[];
  recovery: readonly RecoveryCheck[];
  /** Lines of all servers, as they logged them. */
  serverLog: readonly string[];
  databaseLog: readonly string[];
  /** Absent without a hostile peer. */
  assault?: Assault | undefined;
  drained: boolean;
  leaseMs: number;
  /** Longest time from a worker's last sign of life to its being declared dead. */
  verdictMs: number;
};

export function overlapsSpan({ from, to }: { from: number; to: number }, start: number, end: number): boolean {
  return from <= end && to >= start;
}

export function grantsOf({ grants }: Pick<Evidence, 'grants'>, id: string): readonly Grant[] {
  return grants.get(id) ?? [];
}

export function runsOf({ executions }: Pick<Evidence, 'executions'>, id: string): readonly Execution[] {
  return executions.get(id) ?? [];
}

export function processKey({ unit, pid }: { unit: string; pid: number }): string {
  return `${unit} ${pid}`;
}
