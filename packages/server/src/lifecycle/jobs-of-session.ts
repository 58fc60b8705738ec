/**
 * Joins the jobs that a session holds, as `j`. The lateral join with "offset" makes it a look into an index for each session:
 * turned round it would be a walk over all such jobs, each compared with each session (see db/by-key).
 */
export function jobsOf(session: string, state: 'running' | 'unknown'): string {
  return `cross join lateral (
    select * from drover.job where job.session_id = ${session} and job.state = '${state}' offset 0
  ) j`;
}

/**
 * "The session holds the job `j`", for a job that is looked up by its id. An equality would also lead to the index of held
 * jobs: for each of a batch, all that the session holds.
 */
export function heldBy(session: string): string {
  return `j.session_id is not distinct from ${session}`;
}
