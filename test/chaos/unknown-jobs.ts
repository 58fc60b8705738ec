/**
 * L1 of a job that is `unknown` at the end: it may be so only if nobody can know how its last grant ended. Judged by what
 * was seen outside: which process had that grant, what it wrote to the witness, how it ended, and what the next process
 * of its folder said that the journal named. The database only says for whom the grant was.
 */
import { createReadStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type pg from 'pg';
import type { JobRecord } from './records.js';
import type { Instance, Trouble, Unit } from './units.js';
import type { Execution } from './witness.js';

/**
 * From the end of a handler to the fsync of its outcome, while its process runs: some milliseconds, and more where
 * handlers that block the event loop and the database's own fsyncs come before it.
 */
export const DURABLE_WITHIN_MS = 5000;
/** For the successor of a process to come up and be taken in. */
const RETURN_MS = 10_000;
/** What a worker logs at its start; see recover in the SDK's journal. */
const NAMED = 'these jobs were started when the last process of this folder died';

export type Grantee = Pick<Instance, 'unit' | 'ending' | 'exitedAt' | 'pauses'>;
/** Why an unknown job is right to be so; `unheld` if it is not. */
export type Verdict = 'died' | 'end not durable' | 'named' | 'never back' | 'unheld';

export type LastGrant = {
  /** The process it was for. */
  grantee: Grantee | undefined;
  /** What the witness saw of it. */
  run: Pick<Execution, 'end' | 'to'> | undefined;
  /** Whether a journal named this very grant as started. */
  isNamed: boolean;
  /** From when on the worker is broken for ever, so that it can never say what it knows; undefined if it is not. */
  brokenAt: number | undefined;
};

export function judgeUnknown(job: Pick<JobRecord, 'hold'>, { grantee, run, isNamed, brokenAt }: LastGrant): Verdict {
  if (!job.hold || grantee === undefined) return 'unheld';
  // What had ended well before was to be told before.
  if (brokenAt !== undefined && (run?.end === undefined || run.to > brokenAt - RETURN_MS)) return 'never back';
  const isKilled = grantee.ending === 'SIGKILL';
  if (run === undefined) {
    // The line of the journal is durable before the first line of the handler; killed in between, nobody can tell it from
    // one that has begun. Without that line the worker, or its successor, says that it was never started.
    return isNamed && isKilled ? 'named' : 'unheld';
  }
  // Who leaves in good order has waited for its handlers, or gives them back.
  if (run.end === undefined) return grantee.ending !== undefined && grantee.ending !== 'code 0' ? 'died' : 'unheld';
  return isKilled && ranMs(run.to, grantee) <= DURABLE_WITHIN_MS ? 'end not durable' : 'unheld';
}

/** How long the process went on after that moment, without the time in which it stood still. */
function ranMs(from: number, { exitedAt = Number.POSITIVE_INFINITY, pauses }: Grantee): number {
  const paused = pauses.map((pause) => Math.max(0, Math.min(pause.to, exitedAt) - Math.max(pause.from, from)));
  return exitedAt - from - paused.reduce((sum, ms) => sum + ms, 0);
}

export type LastGrants = { of(job: JobRecord, runs: readonly Execution[]): LastGrant };

export async function readLastGrants(
  pool: pg.Pool,
  { folder, instances, units }: { folder: string; instances: readonly Instance[]; units: readonly Unit[] },
): Promise<LastGrants> {
  const { rows } = await pool.query<{ id: string; name: string; pid: number }>(
    `select j.id::text, s.name, s.pid
     from drover.job j
     join chaos.granted g on g.id = j.id and g.fence = j.fence
     join drover.session s on s.id = g.session_id
     where j.state = 'unknown'`,
  );
  const processOf = new Map(rows.map(({ id, name, pid }) => [id, { name, pid }]));
  const named = await readNamed(join(folder, 'logs'));
  const brokenAt = new Map(units.map(({ name, troubles }) => [name, troubles.find(isForEver)?.from]));
  /** A process that died before had a successor, which could say what it knew. */
  const brokenWith = ({ unit, exitedAt = Number.POSITIVE_INFINITY }: Instance) => {
    const moment = brokenAt.get(unit);
    return moment !== undefined && exitedAt > moment - RETURN_MS ? moment : undefined;
  };
  return {
    of(job, runs) {
      const owner = processOf.get(job.id);
      const grantee = instances.find(({ unit, pid }) => unit === owner?.name && pid === owner.pid);
      return {
        grantee,
        run: runs.findLast(({ instance, attempt }) => instance === grantee && attempt === job.attempt),
        isNamed: named.has(`${job.id} ${job.fence}`),
        brokenAt: grantee && brokenWith(grantee),
      };
    },
  };
}

function isForEver({ what }: Trouble): boolean {
  return what.startsWith('broken for ever');
}

/** The grants that journals named, by id and fence, from the logs of the workers. */
async function readNamed(folder: string): Promise<Set<string>> {
  const named = new Set<string>();
  for (const file of readdirSync(folder).filter((name) => name.startsWith('worker'))) {
    for await (const line of createInterface({ input: createReadStream(join(folder, file)) })) {
      if (!line.includes(NAMED)) continue;
      for (const grant of (JSON.parse(line) as { jobs: string[] }).jobs) named.add(grant);
    }
  }
  return named;
}
