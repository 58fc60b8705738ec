/**
 * The invariants of the research (S1 …), each with how often it was checked, how often it did not hold, and the
 * first examples. Only what the witness, the supervisor and the load saw outside is trusted; the database is what
 * is being judged.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { checkGrants } from './grants.js';
import { type JobRecord, readJobs, readLedger } from './records.js';
import type { Instance, Trouble, Unit } from './units.js';
import { DURABLE_WITHIN_MS, judgeUnknown, readLastGrants, type Verdict } from './unknown-jobs.js';
import { type Execution, type Executions, overlaps, readWitness, THAW_MS, tell } from './witness.js';

const MAX_EXAMPLES = 5;
/** LOST_LIMIT of lifecycle/lose.ts. */
const LOST_LIMIT = 3;
const FINISHED = ['succeeded', 'failed', 'cancelled'];
/** Troubles that keep a server from its database. */
const ABOUT_THE_DATABASE = /database/;
/** Its handler throws at once, for good. One of `flaky` throws twice at the most, which never ends a job. */
const FAILING_TYPE = 'broken';

export type Finding = {
  name: string;
  promise: string;
  checked: number;
  violated: number;
  examples: string[];
  note?: string;
};

/** `server` is the address of the one that served it last. */
export type GivenUp = { name: string; pid: number; server: string; seenAt: number };

export type Evidence = {
  folder: string;
  pool: pg.Pool;
  units: readonly Unit[];
  instances: readonly Instance[];
  givenUp: readonly GivenUp[];
  drained: boolean;
  /** When the database was not well. */
  databaseTroubles: readonly Trouble[];
  leaseMs: number;
  /** Longest time from the last sign of a worker to the verdict on it. */
  verdictMs: number;
};

export async function check(evidence: Evidence): Promise<Finding[]> {
  const { folder, pool } = evidence;
  const executions = await readWitness(join(folder, 'witness'), evidence.instances);
  const byName = new Map([...executions.values()].flat().map((execution) => [execution.name, execution]));
  const ledger = await readLedger(join(folder, 'ledger.log'));
  const jobs = new Map<string, JobRecord>();
  const findings = createFindings();
  const { of } = findings;

  for await (const job of readJobs(pool)) {
    of('S4', 'a job is there once').check(!jobs.has(job.id), () => `${job.id} is there twice`);
    jobs.set(job.id, job);
  }
  for (const [id, mark] of ledger) {
    if (mark === 'A')
      of('S1', 'an acknowledged job exists').check(jobs.has(id), () => `${id} was acknowledged and is gone`);
    if (mark === 'F')
      of('S1f', 'a refused job does not exist').check(!jobs.has(id), () => `${id} was refused and exists`);
  }
  const lastGrants = await readLastGrants(pool, evidence);
  const verdicts = new Map<Verdict, number>();
  for (const job of jobs.values()) {
    const runs = executions.get(job.id) ?? [];
    const verdict = job.state === 'unknown' ? judgeUnknown(job, lastGrants.of(job, runs)) : undefined;
    if (verdict !== undefined) verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
    checkJob(job, runs, verdict, byName, jobs, of);
  }
  noteUnknown(verdicts, findings.note);
  checkRuns(executions, jobs, evidence.leaseMs, of, findings.note);
  await checkGrants(pool, jobs, executions, of);
  await checkNotes(pool, of);
  checkVerdicts(evidence, of);
  checkProcesses(evidence, of);
  return findings.all();
}

/** What L1 has let pass, so that nobody need believe that it is little. */
function noteUnknown(verdicts: Map<Verdict, number>, note: (name: string, text: string) => void): void {
  const count = (verdict: Verdict) => verdicts.get(verdict) ?? 0;
  if (verdicts.size === 0) return;
  const parts = [
    `${count('died')} died with their process`,
    `${count('end not durable')} within ${DURABLE_WITHIN_MS} ms after their end`,
    `${count('named')} between journal and handler`,
    `${count('never back')} with a worker that stays broken`,
  ];
  note('L1', `unknown: ${parts.join(', ')}`);
}

export type Of = (name: string, promise: string) => { check(holds: boolean, example: () => string): void };

function checkJob(
  job: JobRecord,
  runs: Execution[],
  unknown: Verdict | undefined,
  byName: Map<string, Execution>,
  jobs: Map<string, JobRecord>,
  of: Of,
) {
  const about = () =>
    `${job.id} (${job.type}, ${job.state}, attempt ${job.attempt}, lost ${job.lost}, fence ${job.fence}, session ${job.ending ?? 'of the past'}${job.inherited ? ', inherited' : ''}): ${tell(runs)}`;
  const isRight = unknown === undefined ? FINISHED.includes(job.state) : unknown !== 'unheld';
  of('L1', 'every job has ended, or is unknown with a lost worker').check(isRight, about);
  of('S4a', 'attempts keep to their limits').check(
    job.lost <= LOST_LIMIT && job.attempt <= job.maxAttempts + job.lost,
    about,
  );
  if (job.state === 'succeeded') {
    const run = byName.get(job.execution ?? '');
    const told = run?.id === job.id && run.end === 'ok';
    of('S9', 'a success was seen by the witness').check(told, about);
    of('S3r', 'a result is of the grant that was the last').check(job.resultAttempt === job.attempt, about);
  }
  if (job.state === 'failed') {
    const hasThrown = runs.some(({ attempt, end }) => attempt === job.attempt && end === 'error');
    const reason =
      job.error === 'lost'
        ? job.lost >= LOST_LIMIT
        : job.type === FAILING_TYPE && job.error === 'permanent' && hasThrown;
    of('S9f', 'a failure has a reason that the witness saw').check(reason, () => `${about()} error ${job.error}`);
  }
  if (job.children) {
    const missing = job.children.filter((id) => !jobs.has(id));
    of('S6', 'children exist if and only if their parent succeeded').check(missing.length === 0, about);
  }
  if (job.parentId !== null) {
    const parent = jobs.get(job.parentId);
    const listed = parent?.state === 'succeeded' && parent.children?.includes(job.id) === true;
    of('S6', 'children exist if and only if their parent succeeded').check(listed, about);
  }
}

function checkRuns(
  executions: Executions,
  jobs: Map<string, JobRecord>,
  leaseMs: number,
  of: Of,
  note: (name: string, text: string) => void,
): void {
  let thawed = 0;
  let longest = 0;
  for (const [id, runs] of executions) {
    const found = overlaps(runs, leaseMs);
    const real = found.filter(({ afterPause }) => !afterPause);
    for (const { ms } of found.filter(({ afterPause }) => afterPause)) {
      thawed += 1;
      longest = Math.max(longest, ms);
    }
    of('S2', 'no two executions of a job overlap').check(real.length === 0, () => {
      const [first] = real;
      return `${id}: ${first?.ms.toFixed(0)} ms of ${tell(runs)}`;
    });
    of('S4e', 'what ran is a job').check(jobs.has(id), () => `${id} ran and does not exist: ${tell(runs)}`);
    if (runs[0]?.type !== 'hold') continue;
    // Only one that was told to go has stopped in the middle and is given back; the handler of the load never throws.
    const wasGivenBack = runs.slice(0, -1).every(({ end }) => end === 'abort');
    of('S2h', 'a held job that died with its worker, or was done, is not run again').check(
      wasGivenBack,
      () => `${id}: ${tell(runs)}`,
    );
  }
  if (thawed > 0) {
    note(
      'S2',
      `${thawed} more within ${THAW_MS} ms after a pause of the process, the longest of ${longest.toFixed(0)} ms`,
    );
  }
}

/** What the database noted itself. */
async function checkNotes(pool: pg.Pool, of: Of): Promise<void> {
  const { rows: grants } = await pool.query<{ id: string; fence: number; before: number; total: string }>(`
    with pairs as (
      select id, fence, lag(fence) over (partition by id order by seq) as before, count(*) over () as total
      from chaos.granted
    )
    select id::text, fence, before, total from pairs where fence <= before
    union all select null, 0, 0, count(*) from chaos.granted`);
  for (const { id, fence, before, total } of grants) {
    const text = `${id}: fence ${before} was followed by ${fence}`;
    if (id !== null) of('S3', 'the fence of a job grows with every grant').check(false, () => text);
    else
      for (let each = 0; each < Number(total); each++)
        of('S3', 'the fence of a job grows with every grant').check(true, () => '');
  }
  const { rows: endings } = await pool.query<{ id: string; states: string[]; times: number }>(`
    select id::text, array_agg(state) as states, count(*)::int as times from chaos.ended group by id`);
  for (const { id, states, times } of endings) {
    of('S4t', 'a job ends once').check(times === 1, () => `${id} ended ${times} times: ${states.join(', ')}`);
  }
}

function isItsServer({ role, url }: Unit, server: string): boolean {
  return role === 'server' && server === url;
}

/** Whoever was given up had a trouble of its own, or its server had: an outage of the database is no reason. */
function checkVerdicts({ givenUp, units, instances, verdictMs }: Evidence, of: Of): void {
  for (const { name, pid, server, seenAt } of givenUp) {
    const instance = instances.find((entry) => entry.unit === name && entry.pid === pid);
    const gone = instance?.exitedAt !== undefined && instance.exitedAt <= seenAt;
    const recent = ({ from, to }: Trouble) => from <= seenAt && to >= seenAt - verdictMs;
    const excused = units.some(
      (unit) => (unit.name === name || isItsServer(unit, server)) && unit.troubles.some(recent),
    );
    of('S10', 'nobody is given up but for a fault of its own').check(
      gone || excused,
      () => `${name} (${pid}) was given up in good health`,
    );
  }
}

function checkProcesses({ instances, units, folder, drained, databaseTroubles }: Evidence, of: Of): void {
  of('L2', 'everything drained in time').check(drained, () => 'jobs were left when the time was up');
  const lines = readdirSync(join(folder, 'logs'))
    .filter((file) => file.startsWith('server'))
    .flatMap((file) => readFileSync(join(folder, 'logs', file), 'utf8').split('\n'));
  const ready = new Set(lines.map((line) => /"pid":(\d+).*"server is ready"/.exec(line)?.[1]));
  for (const instance of instances.filter(({ role }) => role === 'server')) {
    const { byItself, key, unit, pid, ending, startedAt, exitedAt = Number.POSITIVE_INFINITY } = instance;
    // One that finds no database at its start says so and ends, and its supervisor starts it again: an address that
    // is wrong must not look like patience. That it was so takes all of this: it never said that it was ready, it ended
    // with the code for it, and the database, or its way there, was broken meanwhile. Any other end is a fault.
    const ways = [...databaseTroubles, ...(units.find(({ name }) => name === unit)?.troubles ?? [])];
    const hadNoDatabase =
      !ready.has(String(pid)) &&
      ending === 'code 1' &&
      ways.some(({ what, from, to }) => ABOUT_THE_DATABASE.test(what) && from <= exitedAt && to >= startedAt);
    of('L4', 'no server ends by itself').check(!byItself || hadNoDatabase, () => `${key} ended with ${ending}`);
  }
  const illegal = lines.filter((line) => /illegal move of job|the fence of job/.test(line));
  of('M', 'no illegal move was tried').check(
    illegal.length === 0,
    () => `${illegal.length} lines, the first: ${illegal[0]?.slice(0, 300)}`,
  );
}

function createFindings() {
  const found = new Map<string, Finding>();
  const of: Of = (name, promise) => {
    let finding = found.get(name);
    if (!finding) {
      finding = { name, promise, checked: 0, violated: 0, examples: [] };
      found.set(name, finding);
    }
    const { examples } = finding;
    const current = finding;
    return {
      check(holds, example) {
        current.checked += 1;
        if (holds) return;
        current.violated += 1;
        if (examples.length < MAX_EXAMPLES) examples.push(example());
      },
    };
  };
  return {
    of,
    note(name: string, text: string) {
      const finding = found.get(name);
      if (finding) finding.note = text;
    },
    all: () => [...found.values()].sort((one, other) => one.name.localeCompare(other.name)),
  };
}
