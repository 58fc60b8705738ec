/** The rows of all jobs, read when the run is over. */
import type pg from 'pg';

const FETCH = 20_000;

export type JobRecord = {
  id: string;
  state: string;
  type: string;
  queue: string;
  priority: number;
  attempt: number;
  maxAttempts: number;
  lost: number;
  fence: number;
  holds: boolean;
  timeoutMs: number | null;
  payloadHash: string;
  parentId: string | null;
  /** `schedule@nominal time` of a job that a schedule created. */
  occurrence: string | null;
  /** The execution that the result names, if any. */
  resultOf: string | null;
  /** Code and message of the last error. */
  errorCode: string | null;
  errorMessage: string | null;
};

const COLUMNS = `
  id::text as id, state::text as state, type, queue, priority, attempt, max_attempts as "maxAttempts", lost_attempts as lost,
  fence, hold_if_lost as holds, (options->>'timeout')::float as "timeoutMs", md5(payload::text) as "payloadHash",
  parent_id::text as "parentId", (options->'occurrence'->>'schedule') || '@' || (options->'occurrence'->>'nominalAt') as occurrence`;

const JOBS = `
select ${COLUMNS}, result->>'execution' as "resultOf", error->>'code' as "errorCode", error->>'message' as "errorMessage"
from drover.job_history
union all
select ${COLUMNS}, null, null, null
from drover.job`;

/** One record per row. A job that exists twice has two. */
export async function readJobs(pool: pg.Pool): Promise<JobRecord[]> {
  const jobs: JobRecord[] = [];
  const client = await pool.connect();
  try {
    await client.query(`begin read only; declare jobs no scroll cursor for ${JOBS}`);
    for (;;) {
      const { rows } = await client.query<JobRecord>(`fetch ${FETCH} from jobs`);
      jobs.push(...rows);
      if (rows.length < FETCH) return jobs;
    }
  } finally {
    await client.query('rollback');
    client.release();
  }
}
