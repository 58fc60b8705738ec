/**
 * Finds impossible rows and repairs them: on every server, in bounded batches, guarded like everything else. It
 * should never find anything: each repair is counted and logged, because it means a bug elsewhere, or a change of the
 * tables by hand.
 */
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { loseOrphans } from '../lifecycle/lose.js';
import type { Publish } from '../lifecycle/publish.js';
import type { Metrics, RepairKind } from '../telemetry/metrics.js';

const BATCH = 1000;

/**
 * Ready jobs in a lane that no claim reads. Iterates over the distinct pairs, so its cost depends on their number
 * only.
 */
const missingLanes = sql('missing_lanes')`
with recursive pair as (
  (select queue, type from drover.job where state = 'ready' order by queue, type limit 1)
  union all
  select next.queue, next.type
  from pair p
  cross join lateral (
    select queue, type
    from drover.job
    where state = 'ready' and (queue, type) > (p.queue, p.type)
    order by queue, type
    limit 1
  ) next
)
insert into drover.lane (queue, type)
select queue, type
from pair
where not exists (select from drover.lane l where l.type = pair.type and l.queue = pair.queue)
returning 1`;

const count = sql('count_repairs')`
insert into drover.repair as r (kind, count)
values ($1, $2)
on conflict (kind) do update set count = r.count + excluded.count, last_at = now()`;

type RepairDeps = { db: Runner; logger: Logger; metrics: Pick<Metrics, 'repairs'> };

export async function countRepairs(deps: RepairDeps, kind: RepairKind, repaired: number): Promise<void> {
  const { db, logger, metrics } = deps;
  if (repaired === 0) return;
  metrics.repairs.inc({ kind }, repaired);
  logger.error({ event: 'rows.repaired', kind, repaired }, 'impossible rows were found and repaired');
  await db.run(count, [kind, repaired]);
}

/** One round. A session must have ended more than `settledMs` ago before its jobs count as orphans. */
export async function reconcile(
  deps: RepairDeps & { publish: Publish },
  serverId: string,
  settledMs: number,
): Promise<void> {
  const orphans = await loseOrphans(deps.db, serverId, settledMs, BATCH);
  deps.publish(orphans);
  await countRepairs(deps, 'orphaned_job', orphans.length);
  await countRepairs(deps, 'missing_lane', (await deps.db.run(missingLanes)).length);
}
