/** Rows as the engine leaves them behind, made quickly and with times of our choice. */
import { isFinished, type JobState, newId } from '@drover/protocol';
import type pg from 'pg';
import { writeUnguarded } from '../support/guard-moves.js';

export type GivenRow = {
  id?: string;
  state: JobState;
  queue?: string;
  type?: string;
  tags?: string[];
  parentId?: string | null;
  schedule?: string | null;
  runId?: string | null;
  createdAt?: Date;
  finishedAt?: Date;
};

export type MadeRow = Required<Omit<GivenRow, 'finishedAt'>> & { finishedAt: Date | undefined };

export function toRow(given: GivenRow): MadeRow {
  const createdAt = given.createdAt ?? new Date();
  return {
    id: given.id ?? newId(),
    state: given.state,
    queue: given.queue ?? 'default',
    type: given.type ?? 'work',
    tags: given.tags ?? [],
    parentId: given.parentId ?? null,
    schedule: given.schedule ?? null,
    runId: given.runId ?? null,
    createdAt,
    finishedAt: isFinished(given.state) ? (given.finishedAt ?? createdAt) : undefined,
  };
}

export async function insertJobRows(pool: pg.Pool, rows: readonly MadeRow[]): Promise<void> {
  const json = JSON.stringify(rows.map((row) => ({ ...row, tags: row.tags.length > 0 ? row.tags : null })));
  const columns = `id uuid, state drover.job_state, queue text, type text, tags text[], "parentId" uuid, schedule text, "runId" uuid, "createdAt" timestamptz, "finishedAt" timestamptz`;
  await writeUnguarded(
    pool,
    `insert into drover.job (id, state, queue, type, tags, parent_id, schedule, run_id, created_at, run_at, session_id, max_attempts, payload)
     select id, state, queue, type, tags, "parentId", schedule, "runId", "createdAt", "createdAt",
       case when state in ('running', 'unknown') then gen_random_uuid() end, 10, '{}'
     from json_to_recordset($1) as r(${columns})
     where "finishedAt" is null`,
    [json],
  );
  await pool.query(
    `insert into drover.job_history (id, state, queue, type, tags, parent_id, schedule, run_id, created_at, run_at, finished_at,
       fence, attempt, max_attempts, lost_attempts, priority, payload)
     select id, state, queue, type, tags, "parentId", schedule, "runId", "createdAt", "createdAt", "finishedAt", 1, 1, 10, 0, 0, '{}'
     from json_to_recordset($1) as r(${columns})
     where "finishedAt" is not null`,
    [json],
  );
}

/** Partitions for the days before yesterday, which the migration does not make unless it ran before midnight. */
export async function makePastPartitions(pool: pg.Pool, days: number): Promise<void> {
  for (let back = days; back >= 2; back--) {
    const day = new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10);
    const next = new Date(Date.now() - (back - 1) * 86_400_000).toISOString().slice(0, 10);
    const name = `drover.job_history_${day.replaceAll('-', '')}`;
    const { rows } = await pool.query('select to_regclass($1) is not null as exists', [name]);
    if (rows[0].exists) continue;
    await pool.query(`create table ${name} (like drover.job_history including all)`);
    await pool.query(
      `alter table drover.job_history attach partition ${name} for values from ('${day} 00:00+00') to ('${next} 00:00+00')`,
    );
  }
}
