/**
 * The checker of the ledger, as that of Jepsen's Chronos test: it computes by another library than ours which occurrences
 * there must be, and matches the ledger and the jobs with them.
 */
import { CronExpressionParser } from 'cron-parser';
import type pg from 'pg';
import { expect } from 'vitest';

export type Checked = { occurrences: number; p99Ms: number; latestMs: number };

/** Every occurrence of so many schedules of this pattern that must be, is, once, with a job of its own, and not early; and there is no other. */
export async function checkLedger(pool: pg.Pool, cron: string, schedules: number): Promise<Checked> {
  const { rows } = await pool.query<{ name: string; created: Date; until: Date; times: Date[]; jobs: number }>(
    `select s.name, s.created_at as created, s.handled_until as until,
       array_agg(o.nominal_at order by o.nominal_at) as times, count(distinct o.job_id)::int as jobs
     from drover.schedule s join drover.occurrence o on o.schedule_id = s.id and o.state = 'fired' group by s.id`,
  );
  expect(rows).toHaveLength(schedules);
  let occurrences = 0;
  for (const { name, created, until, times, jobs } of rows) {
    const expected: number[] = [];
    const parsed = CronExpressionParser.parse(cron, { currentDate: created, tz: 'UTC' });
    for (let at = parsed.next().toDate(); at <= until; at = parsed.next().toDate()) expected.push(at.getTime());
    expect({ name, jobs, times: times.map((time) => time.getTime()) }).toEqual({
      name,
      jobs: expected.length,
      times: expected,
    });
    occurrences += expected.length;
  }
  const count = await pool.query<{ jobs: number; skipped: number; early: number; p99: number; latest: number }>(
    `select (select count(*)::int from drover.job) as jobs,
       count(*) filter (where state <> 'fired')::int as skipped, count(*) filter (where decided_at < due_at)::int as early,
       percentile_cont(0.99) within group (order by extract(epoch from decided_at - due_at) * 1000) as p99,
       max(extract(epoch from decided_at - due_at) * 1000)::float as latest
     from drover.occurrence`,
  );
  const [{ p99, latest, ...counts } = { jobs: 0, skipped: 0, early: 0, p99: 0, latest: 0 }] = count.rows;
  expect(counts).toEqual({ jobs: occurrences, skipped: 0, early: 0 });
  return { occurrences, p99Ms: p99, latestMs: latest };
}
