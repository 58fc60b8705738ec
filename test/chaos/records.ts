/** What the system says, read when the run is over: the jobs, the notes of the database, the ledger of the load. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type pg from 'pg';

const FETCH = 20_000;

export type JobRecord = {
  id: string;
  state: string;
  type: string;
  attempt: number;
  maxAttempts: number;
  lost: number;
  fence: number;
  hold: boolean;
  parentId: string | null;
  execution: string | null;
  resultAttempt: number | null;
  children: string[] | null;
  error: string | null;
  /** The journal of a process that died names it as one that it was starting, had started or had finished. */
  inherited: boolean;
  /** How the session of an unfinished job ended. */
  ending: string | null;
};

const JOBS = `
select id::text as id, state::text as state, type, attempt, max_attempts as "maxAttempts", lost_attempts as lost, fence,
  hold_if_lost as hold, parent_id::text as "parentId", result->>'execution' as execution,
  (result->>'attempt')::int as "resultAttempt",
  case when type = 'parent' and result is not null
    then array(select json_array_elements_text(result->'children')) end as children,
  coalesce(error->>'code', error->>'name') as error, false as inherited, null as ending
from drover.job_history
union all
select j.id::text, j.state::text, j.type, j.attempt, j.max_attempts, j.lost_attempts, j.fence,
  j.hold_if_lost, j.parent_id::text, null, null, null, null, j.inherited, coalesce(s.ending, 'alive')
from drover.job j
left join drover.session s on s.id = j.session_id`;

/** Every job, a record each; one that is there twice is given twice. */
export async function* readJobs(pool: pg.Pool): AsyncGenerator<JobRecord> {
  const client = await pool.connect();
  try {
    await client.query(`begin read only; declare jobs no scroll cursor for ${JOBS}`);
    for (;;) {
      const { rows } = await client.query<JobRecord>(`fetch ${FETCH} from jobs`);
      yield* rows;
      if (rows.length < FETCH) return;
    }
  } finally {
    await client.query('rollback');
    client.release();
  }
}

export type Ledger = Map<string, 'A' | 'F' | 'U'>;

export async function readLedger(path: string): Promise<Ledger> {
  const ledger: Ledger = new Map();
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const [mark, id] = line.split(' ');
    if (id !== undefined) ledger.set(id, mark as 'A' | 'F' | 'U');
  }
  return ledger;
}
