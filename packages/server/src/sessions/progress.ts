/** Progress of running jobs, batched: the latest value of each job, guarded like an outcome. */

import { createGatherer } from '@drover/protocol/gather';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { splitBatch } from '../db/split-batch.js';
import { sql } from '../db/statement.js';

export type ProgressReport = { id: string; fence: number; value: string };

const write = sql('progress')`
with report as (
  select distinct on (id) * from json_to_recordset($1) as r(id uuid, fence int, value text) order by id
)
update drover.job j
set progress = r.value::json
from report r
where ${byKey('j.id', 'r.id')} and j.fence = r.fence and j.state = 'running'`;

const MAX_REPORTS_A_BATCH = 2000;

export type ProgressWriter = { report(items: ProgressReport[]): Promise<void>; idle(): Promise<void> };

export function createProgressWriter(db: Runner): ProgressWriter {
  const gatherer = createGatherer<ProgressReport[], void>({
    weigh: (items) => items.length,
    maxWeight: MAX_REPORTS_A_BATCH,
    concurrency: 1,
    flush: (reports) =>
      splitBatch<ProgressReport[], void>(reports, {
        async run(some) {
          const latest = new Map(some.flat().map((report) => [report.id, report]));
          await db.run(write, [JSON.stringify([...latest.values()])]);
          return some.map(() => undefined);
        },
        refuse: (_report, error) => error,
      }),
  });
  return { report: (items) => gatherer.add(items), idle: () => gatherer.idle() };
}
