/**
 * The SQL with which a verb writes what it did into the minute's rollup, in the same statement. Rows are
 * per server, and a server sends one batch of outcomes at a time, so nobody waits for a row here.
 */

/**
 * Adds up `source`, which has the columns queue, type, ended_state, wait_ms and run_ms. An attempt that is
 * to be repeated has the ended_state 'scheduled'.
 */
export function addToRollup(source: string, serverId: '$2' | '$3'): string {
  return `
  insert into drover.rollup as r
    (minute, server_id, queue, type, succeeded, failed, cancelled, retried, wait_ms, run_ms)
  select date_trunc('minute', now()), ${serverId}::uuid, lane.*
  from (
    select queue, type,
      count(*) filter (where ended_state = 'succeeded'),
      count(*) filter (where ended_state = 'failed'),
      count(*) filter (where ended_state = 'cancelled'),
      count(*) filter (where ended_state = 'scheduled'),
      coalesce(sum(wait_ms), 0), coalesce(sum(run_ms), 0)
    from ${source}
    group by queue, type
    -- keeps the order below out of here: sorting the jobs instead of their few lanes was a tenth of a finish
    offset 0
  ) lane
  order by queue, type
  on conflict (minute, server_id, queue, type) do update
  set succeeded = r.succeeded + excluded.succeeded,
    failed = r.failed + excluded.failed,
    cancelled = r.cancelled + excluded.cancelled,
    retried = r.retried + excluded.retried,
    wait_ms = r.wait_ms + excluded.wait_ms,
    run_ms = r.run_ms + excluded.run_ms`;
}
