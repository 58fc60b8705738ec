/** SQL for the attempts of the job `j` plus the present one, which did not succeed. */
export function withAttempt(outcome: 'failed' | 'lost' | 'cancelled', startedAt: string, error: string): string {
  return `drover.add_attempt(j.attempts, j.attempt, '${outcome}', ${startedAt}, j.session_id, ${error})`;
}
