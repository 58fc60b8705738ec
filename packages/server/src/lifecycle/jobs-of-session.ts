/**
 * Joins the jobs that a session holds, as `j`. The lateral join with "offset" forces an index lookup per session;
 * PostgreSQL could otherwise scan all such jobs and compare each with each session (see db/by-key).
 */
export function jobsOf(session: string, state: 'running' | 'unknown'): string {
  return `cross join lateral (
    select * from drover.job where job.session_id = ${session} and job.state = '${state}' offset 0
  ) j`;
}

/**
 * "The session holds the job `j`", for a job that is looked up by its id. An equality could use the index of held
 * jobs, and would then read all jobs of the session for each job of a batch.
 */
export function heldBy(session: string): string {
  return `j.session_id is not distinct from ${session}`;
}
