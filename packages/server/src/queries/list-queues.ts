/** Every queue that was ever used, with its waiting jobs and the totals of the last hour. */
import type { Queue } from '@drover/protocol';
import { isoTimeOrNull } from '../base/iso-time.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { FLOW_SUMS, type FlowSums, NO_FLOW, toFlow } from './flow.js';
import type { HotCounts } from './hot-counts.js';

/** A queue is a topic, not a customer. This many are a mistake, and a longer page would be useless. */
const MAX_QUEUES = 10_000;

const listQueuesStatement = sql('list_queues')`
with last_hour as (
  select queue, ${FLOW_SUMS}
  from drover.rollup r
  where minute >= date_trunc('minute', now() - interval '1 hour')
  group by queue
), queues as (
  select queue, array_agg(distinct type order by type) as types
  from drover.lane
  group by queue
  order by queue
  limit ${MAX_QUEUES}
)
select q.queue as name, q.types, p.name is not null as paused, h.*
from queues q
left join last_hour h on h.queue = q.queue
left join drover.pause p on p.scope = 'queue' and p.name = q.queue
order by q.queue`;

/** Null if nothing happened in the last hour. */
type QueueRow = { name: string; types: string[]; paused: boolean } & {
  [Column in keyof FlowSums]: FlowSums[Column] | null;
};

export async function listQueues(db: Runner, hotCounts: () => Promise<HotCounts>): Promise<Queue[]> {
  const [rows, hot] = await Promise.all([db.run<QueueRow>(listQueuesStatement), hotCounts()]);
  return rows.map((row) => {
    const unfinished = hot.queues.get(row.name);
    return {
      name: row.name,
      counts: unfinished?.counts ?? {},
      types: row.types,
      paused: row.paused,
      oldestReadyAt: isoTimeOrNull(unfinished?.oldestReadyAt),
      lastHour: toFlow(row.succeeded === null ? NO_FLOW : (row as FlowSums)),
    };
  });
}
