/** The system's ledger of occurrences, read when the run is over. */
import type pg from 'pg';

export type OccurrenceRecord = {
  /** Unix time in milliseconds. */
  nominalAt: number;
  state: string;
  jobId: string | null;
};
export type ScheduleRecord = { name: string; occurrences: OccurrenceRecord[] };

export async function readSchedules(pool: pg.Pool): Promise<ScheduleRecord[]> {
  const { rows } = await pool.query<ScheduleRecord>(
    `select s.name,
       coalesce(json_agg(json_build_object('nominalAt', round(extract(epoch from o.nominal_at) * 1000), 'state', o.state,
         'jobId', o.job_id) order by o.nominal_at) filter (where o.schedule_id is not null), '[]') as occurrences
     from drover.schedule s
     left join drover.occurrence o on o.schedule_id = s.id
     group by s.id
     order by s.name`,
  );
  return rows;
}
