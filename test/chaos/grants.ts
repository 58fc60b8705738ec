/**
 * What ran against what was granted, by the notes of the database. Both are told apart by the attempt and by the process:
 * an attempt that is given back comes again under its number, for another process or after another grant.
 */
import type pg from 'pg';
import type { Of } from './check.js';
import type { JobRecord } from './records.js';
import type { Instance } from './units.js';
import { type Execution, type Executions, tell } from './witness.js';

export async function checkGrants(
  pool: pg.Pool,
  jobs: ReadonlyMap<string, JobRecord>,
  executions: Executions,
  of: Of,
): Promise<void> {
  const grants = await readGrants(pool);
  // This also guards what audit.ts forgets: a grant that was taken back in its own transaction must not be run.
  for (const [id, runs] of executions) {
    of('S3g', 'every execution has a grant of its own').check(
      isEachGranted(runs, grants.get(id) ?? []),
      () => `${id} was granted ${grants.get(id)?.join(', ') ?? 'to nobody'}: ${tell(runs)}`,
    );
  }
  const idle = new Map<string, number[]>();
  for (const { id, attempt } of jobs.values()) {
    const attempts = unstartedAttempts(attempt, grants.get(id) ?? [], executions.get(id) ?? []);
    if (attempts.length > 0) idle.set(id, attempts);
  }
  const excused = await readExcused(pool, [...idle.keys()]);
  for (const { id, state, lost } of jobs.values()) {
    const unexplained = (idle.get(id) ?? []).filter((attempt) => !excused.has(`${id} ${attempt}`));
    of('D9', 'every attempt was started, or lost with its worker').check(
      unexplained.length === 0,
      () => `${id} (${state}, lost ${lost}), attempts ${unexplained}: ${tell(executions.get(id) ?? [])}`,
    );
  }
}

/** One grant or execution: the attempt and the process. */
function keyOf(attempt: number, { unit, pid }: Pick<Instance, 'unit' | 'pid'>): string {
  return `${attempt} ${unit} ${pid}`;
}

/** By job, in their order. */
async function readGrants(pool: pg.Pool): Promise<Map<string, string[]>> {
  const { rows } = await pool.query<{ id: string; grants: string[] }>(
    `select g.id::text, array_agg(concat_ws(' ', g.attempt, s.name, s.pid) order by g.seq) as grants
     from chaos.granted g
     left join drover.session s on s.id = g.session_id
     group by g.id`,
  );
  return new Map(rows.map(({ id, grants }) => [id, grants]));
}

export function isEachGranted(
  runs: readonly Pick<Execution, 'attempt' | 'instance'>[],
  grants: readonly string[],
): boolean {
  const left = [...grants];
  return runs.every(({ attempt, instance }) => {
    const at = left.indexOf(keyOf(attempt, instance));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

/**
 * Attempts that count and whose last grant was not begun by the process that it was for. Starts are what counts, not
 * deaths: a handler may have ended well on a worker that could not tell it in time, and that attempt is lost rightly.
 */
export function unstartedAttempts(
  attempts: number,
  grants: readonly string[],
  runs: readonly Pick<Execution, 'attempt' | 'instance'>[],
): number[] {
  const started = new Set(runs.map(({ attempt, instance }) => keyOf(attempt, instance)));
  const unstarted: number[] = [];
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const last = grants.findLast((grant) => grant.startsWith(`${attempt} `));
    if (last === undefined || !started.has(last)) unstarted.push(attempt);
  }
  return unstarted;
}

/**
 * A grant that never reached its worker may use up an attempt only if that worker was given up before it could say so:
 * then nobody can tell it from one that had begun. That is so for the losses that end a job, too. When it was given up
 * is not asked: a claim that began before may end after it, and then counts as lost as well (lose_orphans).
 */
async function readExcused(pool: pg.Pool, ids: readonly string[]): Promise<Set<string>> {
  const { rows } = await pool.query<{ id: string; attempt: number }>(
    `select g.id::text, g.attempt
     from (select distinct on (id, attempt) * from chaos.granted where id = any($1) order by id, attempt, seq desc) g
     where exists (select from chaos.given_up u where u.session_id = g.session_id)`,
    [ids],
  );
  return new Set(rows.map(({ id, attempt }) => `${id} ${attempt}`));
}
