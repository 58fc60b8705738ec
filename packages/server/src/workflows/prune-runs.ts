/** Deletes finished runs after their retention, unless another run still needs them. Every step is bounded. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const BATCH = 1000;

const old = sql('prune_runs')`
delete from drover.run
where id = any(array(
  select r.id
  from drover.run r
  where r.finished_at < now() - $1::double precision * interval '1 millisecond'
    and not exists (select from drover.needed_run needed where needed.id = r.id)
    and not exists (select from drover.run p where p.id = r.parent_run and p.state = 'running')
  limit ${BATCH}
))
returning 1`;

export async function pruneRuns(db: Runner, retentionMs: number): Promise<void> {
  while ((await db.run(old, [retentionMs])).length === BATCH);
}
