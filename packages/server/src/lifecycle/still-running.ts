/**
 * "The job is still running", written so that PostgreSQL cannot answer it from the partial index of running
 * jobs: for a batch of ids it would then read all of that index for each id (260 against 15 ms a thousand).
 */
export const STILL_RUNNING = "j.state::text = 'running'";

/**
 * Joins the running jobs of a session, as `job`. The lateral join with "offset" makes it a look into the index for each
 * session: turned round it would be a walk over all running jobs, each compared with each session (see db/by-key).
 */
export function runningOf(session: string, job: string, state: 'running' | 'unknown' = 'running'): string {
  return `cross join lateral (
    select * from drover.job where job.session_id = ${session} and job.state = '${state}' offset 0
  ) ${job}`;
}
