/** The queues and types of a scope, and whether a job or a schedule is in it. Only for callers with a scope. */
import { allows, likePatterns, queueOfJobs, type Scope } from '../access/scope.js';
import { earliestFinish } from '../base/id-time.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const lanes = sql('lanes_in_scope')`
select array_agg(distinct queue) as queues, array_agg(distinct type) as types
from drover.lane
where ($1::text[] is null or queue like any($1)) and ($2::text[] is null or type like any($2))`;

const laneOfJob = sql('lane_of_job')`
select queue, type from drover.job where id = $1
union all
select queue, type from drover.job_history where id = $1 and finished_at >= $2
limit 1`;

const laneOfSchedule = sql('lane_of_schedule')`
select ${queueOfJobs('s')} as queue, s.job->>'type' as type from drover.schedule s where s.name = $1`;

/** Those that jobs have used, by exact names. Undefined: all. */
export type LanesInScope = { queues: readonly string[] | undefined; types: readonly string[] | undefined };

type Lane = { queue: string; type: string };

export async function lanesInScope(db: Runner, { queues, types }: Scope): Promise<LanesInScope> {
  const [row] = await db.run<{ queues: string[] | null; types: string[] | null }>(lanes, [
    likePatterns(queues),
    likePatterns(types),
  ]);
  return { queues: queues ? (row?.queues ?? []) : undefined, types: types ? (row?.types ?? []) : undefined };
}

/** False also if there is no such job. */
export async function isJobInScope(db: Runner, scope: Scope, id: string): Promise<boolean> {
  const [lane] = await db.run<Lane>(laneOfJob, [id, earliestFinish(id)]);
  return lane !== undefined && allows(scope, lane.queue, lane.type);
}

/** Undefined: there is no such schedule. */
export async function isScheduleInScope(db: Runner, scope: Scope, name: string): Promise<boolean | undefined> {
  const [lane] = await db.run<Lane>(laneOfSchedule, [name]);
  return lane && allows(scope, lane.queue, lane.type);
}
