/**
 * The statistics of the whole system. Finished jobs are never counted: their numbers are sums of the rollups, in two
 * parts. Minutes that no statement can change any more are summed by a bounded reader and cached; recent minutes are
 * summed for every request, so that a job that has just finished is included.
 */
import type { Stats } from '@drover/protocol';
import { isoTime } from '../base/iso-time.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { createBoundedReader } from './bounded-reader.js';
import { beatsSince, MISSED_BEATS, UNRESPONSIVE_AFTER_BEATS } from './capacity.js';
import { createFinishRate } from './finish-rate.js';
import { addFlows, FLOW_SUMS, type FlowSums, finishedIn, NO_FLOW, toFlow } from './flow.js';
import type { HotCounts } from './hot-counts.js';

/** Longer than any of our statements may take to commit (db/database.ts). */
const SETTLED_AFTER = "interval '5 minutes'";

const sumSettled = sql('sum_settled_rollups')`
with spans (span, since) as (
  values ('everything', '-infinity'::timestamptz), ('lastDay', date_trunc('minute', now() - interval '1 day'))
)
select span, count(r.minute)::int as rows, date_trunc('minute', now()) - ${SETTLED_AFTER} as settled_until, ${FLOW_SUMS}
from spans
left join drover.rollup r on r.minute >= since and r.minute < date_trunc('minute', now()) - ${SETTLED_AFTER}
group by span`;

const sumRecent = sql('sum_recent_rollups')`
with spans (span, since) as (
  values ('unsettled', $1::timestamptz),
    ('lastMinute', date_trunc('minute', now() - interval '1 minute')),
    ('lastHour', date_trunc('minute', now() - interval '1 hour'))
)
select span, extract(epoch from now() - since)::double precision as seconds, ${FLOW_SUMS}
from spans
left join drover.rollup r on r.minute >= since
group by span, since`;

const capacityStatement = sql('capacity')`
select coalesce(sum(slots), 0)::int as total, coalesce(sum(greatest(slots - running, 0)), 0)::int as free,
  count(*)::int as workers,
  (select count(*) from drover.server v where ${beatsSince('v.beat_at', '$1')} < ${UNRESPONSIVE_AFTER_BEATS})::int as servers
from drover.session s
where ended_at is null and not draining and ${MISSED_BEATS} < ${UNRESPONSIVE_AFTER_BEATS}`;

type SettledRow = FlowSums & { span: 'everything' | 'lastDay'; rows: number; settled_until: Date };
type RecentRow = FlowSums & { span: 'unsettled' | 'lastMinute' | 'lastHour'; seconds: number };
type Settled = { everything: FlowSums; lastDay: FlowSums; until: Date };

export type StatsReader = () => Promise<Stats>;

export function createStats(db: Runner, hotCounts: () => Promise<HotCounts>, beatMs: number): StatsReader {
  const finishRate = createFinishRate();
  const readSettled = createBoundedReader<Settled>({
    async read() {
      const rows = await db.run<SettledRow>(sumSettled);
      const until = rows[0]?.settled_until ?? new Date(0);
      const value = { everything: sumsOf(rows, 'everything'), lastDay: sumsOf(rows, 'lastDay'), until };
      return { value, rows: rows.reduce((sum, row) => sum + row.rows, 0) };
    },
  });

  return async () => {
    const [settled, hot, [capacity]] = await Promise.all([
      readSettled(),
      hotCounts(),
      db.run<Stats['capacity']>(capacityStatement, [beatMs]),
    ]);
    const recent = await db.run<RecentRow>(sumRecent, [settled.until]);
    const unsettled = sumsOf(recent, 'unsettled');
    const everything = addFlows(settled.everything, unsettled);
    const lastMinute = recent.find(({ span }) => span === 'lastMinute');
    const { succeeded, failed, cancelled } = everything;
    return {
      counts: { ...hot.total, succeeded, failed, cancelled },
      countedAt: isoTime(hot.countedAt),
      capacity: capacity ?? { total: 0, free: 0, workers: 0, servers: 0 },
      perSecond: {
        finished: finishRate(finishedIn(everything)) ?? (lastMinute ? finishedIn(lastMinute) / lastMinute.seconds : 0),
      },
      lastMinute: toFlow(lastMinute ?? NO_FLOW),
      lastHour: toFlow(sumsOf(recent, 'lastHour')),
      lastDay: toFlow(addFlows(settled.lastDay, unsettled)),
    };
  };
}

function sumsOf<Span extends string>(rows: (FlowSums & { span: Span })[], span: Span): FlowSums {
  return rows.find((row) => row.span === span) ?? NO_FLOW;
}
