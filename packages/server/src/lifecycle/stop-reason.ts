/**
 * Why a running job was told to stop. A request to stop is one column, `cancel_requested_at`, whether a person or the expiry made
 * it. The times that were noted tell them apart, not the clock of now, which may have been set back.
 */

/** A person cancelled the job `j` before it expired. */
export const wasCancelled = (j: string) =>
  `(${j}.cancel_requested_at is not null and (${j}.expires_at is null or ${j}.cancel_requested_at < ${j}.expires_at))`;
