/** Runs built by hand for the tests of the rules: a good one, to which a test then applies the effect of a bug. */
import type {
  Evidence,
  Execution,
  Grant,
  Instance,
  JobRecord,
  Repair,
  Trouble,
  Unit,
  Verdict,
} from '../../evidence/evidence.js';
import { processKey } from '../../evidence/evidence.js';
import { grantKey, type JournalEntry } from '../../evidence/journals.js';
import { type Action, type AddedJob, ledgerOf } from '../../evidence/ledger.js';
import type { FaultResult } from '../../faults/fault.js';
import type { Assault } from '../../hostile/hostile.js';

export const LEASE_MS = 3000;
export const VERDICT_MS = 7000;
/** On the wall clock; the schedules of these runs count from here. */
export const WALL_MS = 1_000_000_000_000;

type MadeRun = {
  on: Instance;
  from: number;
  to?: number;
  end?: Execution['end'];
  fence?: number;
  attempt?: number;
  children?: string[];
  occurrence?: string;
};

type MadeJob = {
  id: string;
  type?: string;
  runs?: MadeRun[];
  /** What the load recorded, in addition to the defaults. Null: the load did not add it. */
  sent?: Partial<AddedJob> | null;
  row?: Partial<JobRecord>;
};

export type Made = {
  jobs: JobRecord[];
  executions: Map<string, Execution[]>;
  entries: (AddedJob | Action)[];
  grants: Map<string, Grant[]>;
  endings: Map<string, string[]>;
  journals: Map<string, Map<string, JournalEntry>>;
  verdicts: Verdict[];
  repairs: Repair[];
  schedules: { name: string; occurrences: { nominalAt: number; state: string; jobId: string | null }[] }[];
  instances: Instance[];
  units: (Omit<Unit, 'troubles'> & { troubles: Trouble[] })[];
  databaseTroubles: Trouble[];
  faults: FaultResult[];
  recovery: { what: string; ok: boolean }[];
  assault?: Assault;
  serverLog: string[];
  databaseLog: string[];
  drained: boolean;
  worker1: Instance;
  worker2: Instance;
  /** Adds a job with its grants, executions, row and ending. */
  add(job: MadeJob): void;
  act(kind: Action['kind'], target: string, more?: Partial<Action>): void;
  job(id: string): JobRecord;
  runs(id: string): Execution[];
  evidence(): Evidence;
};

const HASH = 'hash of the payload';

export function emptyRun(): Made {
  const worker1 = instanceOf('worker1', 'worker', 101);
  const worker2 = instanceOf('worker2', 'worker', 102);
  const server1 = instanceOf('server1', 'server', 201);
  const made: Made = {
    ...{ jobs: [], executions: new Map(), entries: [], grants: new Map(), endings: new Map(), journals: new Map() },
    ...{ verdicts: [], repairs: [], schedules: [], databaseTroubles: [], faults: [], serverLog: [], databaseLog: [] },
    ...{ instances: [worker1, worker2, server1], units: [], drained: true, worker1, worker2 },
    recovery: [{ what: 'server1 does not answer', ok: true }],
    add: (job) => addJob(made, job),
    act(kind, target, more = {}) {
      made.entries.push({ kind, target, sentAt: 0, answeredAt: 1, ok: true, answer: '', ...more });
    },
    job: (id) => found(made.jobs.find((job) => job.id === id)),
    runs: (id) => found(made.executions.get(id)),
    evidence: () => evidenceOf(made),
  };
  made.units = [unitOf('worker1', 'worker'), unitOf('worker2', 'worker'), unitOf('server1', 'server')];
  return made;
}

function found<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('the made run has no such thing');
  return value;
}

function instanceOf(unit: string, role: Instance['role'], pid: number): Instance {
  return {
    ...{ key: `${unit}-1`, unit, role, pid, startedAt: 0, exitedAt: undefined, ending: undefined },
    ...{ byItself: false, isStopOverdue: false, pauses: [] },
  };
}

function unitOf(name: string, role: Unit['role']): Made['units'][number] {
  const machine = { backAddress: role === 'server' ? '10.0.0.1' : null };
  return { name, role, machine, url: `http://${name}`, troubles: [] } as unknown as Made['units'][number];
}

function addJob(made: Made, { id, type = 'noop', runs = [], sent = {}, row = {} }: MadeJob): void {
  const executions = runs.map((run, index): Execution => {
    const { on, from, to = from + 10, fence = index + 1, attempt = index + 1, children = [], occurrence } = run;
    const end = 'end' in run ? run.end : 'ok';
    const name = `${on.key}:${id}:${index}`;
    return { name, id, attempt, fence, type, payloadHash: HASH, occurrence, instance: on, from, to, end, children };
  });
  if (executions.length > 0) made.executions.set(id, executions);
  made.grants.set(
    id,
    executions.map(({ fence, attempt, instance }) => {
      return { id, fence, attempt, sessionId: `session of ${instance.key}`, unit: instance.unit, pid: instance.pid };
    }),
  );
  const last = executions.at(-1);
  const job: JobRecord = {
    ...{ id, type, state: 'succeeded', queue: sent?.queue ?? 'default', priority: 0, attempt: last?.attempt ?? 0 },
    ...{
      maxAttempts: 5,
      lost: 0,
      fence: last?.fence ?? 0,
      holds: sent?.holds ?? false,
      timeoutMs: sent?.timeoutMs ?? null,
    },
    ...{ payloadHash: HASH, parentId: null, occurrence: null, errorCode: null, errorMessage: null },
    resultOf: last?.end === 'ok' ? last.name : null,
    ...row,
  };
  made.jobs.push(job);
  made.endings.set(id, [job.state]);
  if (sent === null) return;
  const defaults = { kind: 'job', mark: 'acknowledged', via: 'sdk', maxAttempts: 5, sentAt: 0, answeredAt: 1 } as const;
  made.entries.push({ ...defaults, id, type, payloadHash: HASH, ...sent });
}

function evidenceOf(made: Made): Evidence {
  const { entries, add: _add, act: _act, job: _job, runs: _runs, evidence: _evidence, ...rest } = made;
  return {
    ...rest,
    jobById: new Map(made.jobs.map((job) => [job.id, job])),
    executionByName: new Map([...made.executions.values()].flat().map((run) => [run.name, run])),
    instanceByProcess: new Map(made.instances.map((instance) => [processKey(instance), instance])),
    ledger: ledgerOf(entries),
    ...{ leaseMs: LEASE_MS, verdictMs: VERDICT_MS },
  };
}

/**
 * The worker is killed, its unit is recorded as hurt, its session is declared dead, and its journal has these
 * outcomes.
 */
export function killWorker(
  made: Made,
  instance: Instance,
  at: number,
  outcomes: Record<string, string | undefined> = {},
): void {
  instance.exitedAt = at;
  instance.ending = 'SIGKILL';
  found(made.units.find(({ name }) => name === instance.unit)).troubles.push({ what: 'kill', from: at, to: at + 5000 });
  declareDead(made, instance, at + 4000);
  const journal = new Map<string, JournalEntry>();
  for (const [grant, outcome] of Object.entries(outcomes)) {
    journal.set(grant, { isStarted: true, outcome, isAcknowledged: false });
  }
  made.journals.set(instance.key, journal);
}

export function declareDead(made: Made, { unit, pid, key }: Instance, seenAt: number, isTakeover = false): void {
  made.verdicts.push({ unit, pid, sessionId: `session of ${key}`, server: 'http://server1', isTakeover, seenAt });
}

/** One correct job for each kind of rule. */
export function goodRun(): Made {
  const made = emptyRun();
  const { worker1, worker2 } = made;
  made.add({ id: 'plain', runs: [{ on: worker1, from: 100 }] });
  made.add({ id: 'held', type: 'hold', sent: { holds: true }, runs: [{ on: worker1, from: 100 }] });
  made.add({
    id: 'lost',
    row: { lost: 1 },
    runs: [
      { on: worker2, from: 100, to: 1000, end: undefined },
      { on: worker1, from: 6000 },
    ],
  });
  made.add({ id: 'journaled', type: 'hold', sent: { holds: true }, runs: [{ on: worker2, from: 100 }] });
  killWorker(made, worker2, 1000, { [grantKey('journaled', 1)]: 'succeeded', [grantKey('lost', 1)]: undefined });
  made.add({ id: 'parent', type: 'parent', runs: [{ on: worker1, from: 100, children: ['child'] }] });
  made.add({ id: 'child', type: 'child', sent: null, row: { parentId: 'parent' }, runs: [{ on: worker1, from: 200 }] });
  made.add({
    ...{ id: 'broken', type: 'broken', runs: [{ on: worker1, from: 100, end: 'error' }] },
    row: { state: 'failed', errorCode: 'permanent', errorMessage: 'planned (execution worker1-1:broken:0)' },
  });
  made.act('result', 'plain', { answer: 'worker1-1:plain:0' });
  made.add({ id: 'cancelled', row: { state: 'cancelled' } });
  made.act('cancel', 'cancelled', { sentAt: 100, answeredAt: 110, answer: 'cancelled' });
  made.add({ id: 'delayed', sent: { delayMs: 500 }, runs: [{ on: worker1, from: 510 }] });
  made.add({ id: 'expired', sent: { expiresMs: 500, delayMs: 900 }, row: { state: 'failed', errorCode: 'expired' } });
  made.add({
    ...{ id: 'overtime', type: 'overtime', sent: { timeoutMs: 300 } },
    ...{ runs: [{ on: worker1, from: 100, to: 410, end: 'abort:timeout' }] },
    row: { state: 'failed', errorCode: 'timeout' },
  });
  made.act('pause', 'paused', { sentAt: 100, answeredAt: 110 });
  made.act('resume', 'paused', { sentAt: 9000, answeredAt: 9010 });
  made.add({ id: 'waited', sent: { queue: 'paused' }, runs: [{ on: worker1, from: 9020 }] });
  addSchedule(made);
  made.faults.push({ fault: 'kill worker2', outcome: 'done', why: '' });
  made.databaseTroubles.push({ what: 'restart database', from: 1000, to: 2000 });
  made.repairs.push({ kind: 'unknown_to_worker', count: 1, address: '10.0.0.1', seenAt: 3000 });
  return made;
}

/** Fires every second, created at the start and paused after three. */
function addSchedule(made: Made): void {
  made.act('schedule', 'every-1000', { answer: `${WALL_MS + 100} ${WALL_MS + 110} 1000` });
  made.act('end-schedule', 'every-1000', { answer: `${WALL_MS + 3500} ${WALL_MS + 3510} 1000` });
  const occurrences = [1000, 2000, 3000].map((at) => {
    const occurrence = `every-1000@${new Date(WALL_MS + at).toISOString()}`;
    const id = `tick-${at}`;
    made.add({ id, type: 'tick', sent: null, row: { occurrence }, runs: [{ on: made.worker1, from: at, occurrence }] });
    return { nominalAt: WALL_MS + at, state: 'fired', jobId: id };
  });
  made.schedules.push({ name: 'every-1000', occurrences });
}
