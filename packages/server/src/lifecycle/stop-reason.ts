/**
 * Why a running job was told to stop. A person and the expiry both set `cancel_requested_at`. The recorded times
 * distinguish them, not the present time, because the clock may have been set back.
 */

/** A person cancelled the job `j` before it expired. */
export const wasCancelled = (j: string) =>
  `(${j}.cancel_requested_at is not null and (${j}.expires_at is null or ${j}.cancel_requested_at < ${j}.expires_at))`;
