/** SQL that the writers of the ledger (drover.occurrence) share: firing, triggering and backfilling. */
import { byKey } from '../db/by-key.js';

/**
 * A second decision on an occurrence: one that waited is fired or skipped, one that was skipped is backfilled. The
 * statement adds the condition, since an occurrence that has fired stays unchanged.
 */
export const OVERWRITE_DECISION = `on conflict (schedule_id, nominal_at) do update
  set kind = excluded.kind, state = excluded.state, reason = excluded.reason, job_id = excluded.job_id, decided_at = now()`;

/** Added to the nominal time of a run, so that its key differs from that of its first occurrence. */
export const RUN_MARK = `interval '1 microsecond'`;

/**
 * The CTE `made`: inserts the jobs of the fired occurrences in the CTE `decided`, as their schedules say. The statement must read
 * it, or PostgreSQL does not run it. `historyFrom`: no job with one of these ids can have finished before.
 */
export const madeJobs = (historyFrom: string) => `made as (
  select drover.insert_jobs(
    array_agg(d.job_id), array_agg(t.job->>'type'), array_agg(coalesce(t.job->>'queue', k.defaults->>'queue')),
    array_agg(t.job->>'payload'), null,
    array_agg((
      coalesce(k.defaults - 'queue', '{}') || coalesce((t.job->'options')::jsonb, '{}')
      || jsonb_build_object('occurrence', json_build_object('schedule', t.name, 'nominalAt', drover.iso(d.nominal_at)))
    )::json),
    ${historyFrom}
  )
  from decided d
  -- by its key and not from a CTE: those have no index, and 500 times 500 rows are 250,000 comparisons
  join drover.schedule t on ${byKey('t.id', 'd.schedule_id')}
  -- as drover.insert_job_rows does
  left join drover.job_type k on ${byKey('k.type', "t.job->>'type'")} and t.job->>'complete' is distinct from 'true'
  where d.state = 'fired'
  having count(*) > 0
)`;
