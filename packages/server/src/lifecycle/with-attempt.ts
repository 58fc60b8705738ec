/** SQL for the attempts of the job `j` (or those in `attempts`) plus the present one, which did not succeed. */
export function withAttempt(
  outcome: 'failed' | 'lost' | 'cancelled' | 'released',
  startedAt: string,
  error: string,
  attempts = 'j.attempts',
): string {
  return `drover.add_attempt(${attempts}, j.attempt, '${outcome}', ${startedAt}, j.session_id, ${error})`;
}
