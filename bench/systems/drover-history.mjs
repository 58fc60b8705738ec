/** Finished jobs as Drover leaves them, made by SQL: five million through the system would take minutes. */

const ROWS_PER_STATEMENT = 500_000;

/**
 * Rows `first` to `last` of `total`, oldest first; ids are UUIDv7 of their time, as the SDK makes them. All have
 * finished today (UTC), so that they share one partition with the jobs that are finished next: the hardest case.
 */
const INSERT = `
  insert into drover.job_history (
    id, session_id, created_at, run_at, started_at, finished_at,
    fence, attempt, max_attempts, lost_attempts, priority, state, queue, type, payload, result
  )
  select
    (
      lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0')
      || '7' || substr(noise, 1, 3) || '8' || substr(noise, 4, 15)
    )::uuid,
    gen_random_uuid(), at, at, at, at,
    1, 1, 10, 0, 0, 'succeeded', 'default', 'noop',
    json_build_object(
      'index', n, 'to', 'customer-' || n % 100000 || '@example.com', 'template', 'order-confirmation',
      'locale', 'en-GB', 'order', 'A-' || n, 'total', 1234.5
    ),
    null
  from (
    select n, md5(n::text) as noise, now() - (now() - date_trunc('day', now(), 'UTC')) * ($3::float8 - n) / $3::float8 as at
    from generate_series($1::bigint, $2::bigint) n
  ) finished`;

export async function fillHistory(query, total) {
  for (let first = 1; first <= total; first += ROWS_PER_STATEMENT) {
    await query(INSERT, [first, Math.min(total, first + ROWS_PER_STATEMENT - 1), total]);
  }
}
